import { type Command, Option } from 'commander';
import { clientOptions, deviceOptions, positive, range, wholeNumber, wholeNumbers } from './options.js';
import { writeJson, writeText } from './output.js';

/** `bench serve` and `bench kernels`. */
export function addBenchCommands(bench: Command): void {
  const serve = bench.enablePositionalOptions().command('serve');
  for (const option of clientOptions) serve.addOption(option);
  serve
    .description('offer a load to a running gateway and measure what its clients see')
    .requiredOption('--address <address>', 'the gateway’s')
    .option('--metrics <address>', 'HOST:PORT of its metrics, for queue time, preemptions and processor time')
    .addOption(
      new Option(
        '--rate <requests/s>',
        'open loop: requests arrive at random at this rate, whatever happens',
      ).argParser(positive),
    )
    .addOption(
      new Option('--clients <count>', 'closed loop: each sends its next request when its last has ended')
        .argParser(wholeNumber(1))
        .default(8),
    )
    .addOption(new Option('--seconds <seconds>', 'how long requests are sent').argParser(positive).default(30))
    .addOption(new Option('--requests <count>', 'closed loop: how many, instead of how long').argParser(wholeNumber(1)))
    .addOption(new Option('--prompt-tokens <least:most>').argParser(range).default([64, 512], '64:512'))
    .addOption(new Option('--tokens <least:most>', 'tokens to generate').argParser(range).default([16, 128], '16:128'))
    .addOption(
      new Option('--shared-prefix <tokens>', 'that a prompt has in common with others')
        .argParser(wholeNumber(0))
        .default(0),
    )
    .addOption(new Option('--prefixes <count>', 'different shared prefixes').argParser(wholeNumber(1)).default(1))
    .addOption(
      new Option('--first-token <id>', 'prompts have only ids from here on').argParser(wholeNumber(0)).default(3),
    )
    .addOption(new Option('--connections <count>').argParser(wholeNumber(1)).default(4))
    .addOption(new Option('--seed <number>', 'same seed, same requests').argParser(wholeNumber(0)).default(1))
    .option('--plot <file>', 'write an SVG of the run, of --compare beside the other one')
    .option('--save <file>', 'write the run as JSON, for --compare of later ones')
    .option('--compare <file>', 'a run that was saved: tell how many times as fast this one is')
    .option('--json', 'as JSON', false)
    .action(async (options) => {
      const { benchServe } = await import('./bench-serve.js');
      await benchServe(options);
    });

  const kernelBench = bench
    .command('kernels')
    .description(
      'time fused kernels against the plain ones they replace, in the shapes of an 8B llama, each many times in one graph, ' +
        'so that what fits a cache lies in it; what --kernels does not hold is left out (build:kernels --twins builds all)',
    )
    .addOption(
      new Option('--rows <count...>', 'rows of a step, at most 512 (default: 1, 8 and on a GPU 512)').argParser(
        wholeNumbers(1),
      ),
    )
    .option('--blas [library]', 'f16 products beside cuBLAS or rocBLAS instead, found by the loader or in this file')
    .option('--json', 'as JSON', false)
    .action(async (options) => {
      const [{ openDevice }, { benchKernels, formatKernelPairs }, { benchProducts, formatProductTimes }] =
        await Promise.all([
          import('../executor/open-device.js'),
          import('./bench/kernel-bench.js'),
          import('./bench/product-bench.js'),
        ]);
      const { device: kind, gpu, threads, kernels } = options;
      const device = openDevice({ kind, gpu, threads, kernels });
      if (options.blas !== undefined) {
        const library = options.blas === true ? '' : options.blas;
        const products = [];
        for (const rows of options.rows ?? [1, 8, 64, 512, 2048]) {
          products.push(...(await benchProducts(device, rows, library)));
        }
        const report = { device: device.description, products };
        const table = formatProductTimes(products);
        if (options.json) writeJson(report, 2);
        else writeText(`${device.description}\n${table}`);
        return;
      }
      const pairs = [];
      for (const rows of options.rows ?? (device.isHost ? [1, 8] : [1, 8, 512]))
        pairs.push(...(await benchKernels(device, Math.min(rows, 512))));
      const report = { device: device.description, pairs };
      if (options.json) writeJson(report, 2);
      else writeText(`${device.description}\n${formatKernelPairs(pairs)}`);
    });
  for (const option of deviceOptions) if (option.long !== '--attention') kernelBench.addOption(option);
}
