import { type Command, Option } from 'commander';
import {
  address,
  clientOptions,
  deviceOptions,
  positive,
  range,
  TOKEN_HELP,
  wholeNumber,
  wholeNumbers,
} from '../common/options.js';
import { writeJson, writeText } from '../common/output.js';
import { REQUIRED } from '../common/usage.js';

/** `bench serve` and `bench kernels`. */
export function addBenchCommands(bench: Command): void {
  const serve = bench.enablePositionalOptions().command('serve');
  for (const option of clientOptions) serve.addOption(option);
  serve
    .description('load-test a running gateway')
    .addHelpText('after', TOKEN_HELP)
    .addOption(
      new Option('--address <address>', 'HOST:PORT or unix:PATH of its gRPC API')
        .argParser(address)
        .helpGroup(REQUIRED),
    )
    .optionsGroup('Load:')
    .addOption(
      new Option('--rate <requests/s>', 'open loop: requests per second, at random times (Poisson)').argParser(
        positive,
      ),
    )
    .addOption(
      new Option('--clients <count>', 'closed loop: concurrent clients, each with one request at a time')
        .argParser(wholeNumber(1))
        .default(8),
    )
    .addOption(new Option('--seconds <seconds>', 'duration of the load').argParser(positive).default(30))
    .addOption(
      new Option('--requests <count>', 'closed loop: number of requests, instead of --seconds').argParser(
        wholeNumber(1),
      ),
    )
    .addOption(
      new Option('--prompt-tokens <least:most>', 'tokens per prompt').argParser(range).default([64, 512], '64:512'),
    )
    .addOption(new Option('--tokens <least:most>', 'tokens to generate').argParser(range).default([16, 128], '16:128'))
    .addOption(
      new Option('--shared-prefix <tokens>', 'tokens of a prefix that prompts share')
        .argParser(wholeNumber(0))
        .default(0),
    )
    .addOption(new Option('--prefixes <count>', 'different shared prefixes').argParser(wholeNumber(1)).default(1))
    .addOption(new Option('--first-token <id>', 'smallest token id in prompts').argParser(wholeNumber(0)).default(3))
    .addOption(new Option('--connections <count>', 'gRPC connections').argParser(wholeNumber(1)).default(4))
    .addOption(new Option('--seed <number>', 'seed of the requests').argParser(wholeNumber(0)).default(1))
    .optionsGroup('Output:')
    .option('--metrics <address>', 'HOST:PORT of its metrics, to report queue time, preemptions and processor time')
    .option('--plot <file>', 'write an SVG plot of the run, and of the run of --compare')
    .option('--save <file>', 'write the run as JSON, for --compare')
    .option('--compare <file>', 'saved run to compare this run with')
    .option('--json', 'print JSON', false)
    .action(async (options) => {
      const { benchServe } = await import('./bench-serve.js');
      await benchServe(options);
    });

  const kernelBench = bench
    .command('kernels')
    .description(
      'benchmark fused kernels against the reference kernels they replace, in the shapes of Llama 8B, with warm caches; kernels ' +
        'missing from --kernels are skipped (build:kernels --twins builds all)',
    )
    .addOption(
      new Option('--rows <count...>', 'batched tokens, at most 512 (default: 1, 8 and on a GPU 512)').argParser(
        wholeNumbers(1),
      ),
    )
    .option(
      '--blas [library]',
      'compare f16 matrix products with cuBLAS or rocBLAS instead (default: the installed library)',
    )
    .option('--json', 'print JSON', false)
    .action(async (options) => {
      const [{ openDevice }, { benchKernels, formatKernelPairs }, { benchProducts, formatProductTimes }] =
        await Promise.all([
          import('../../executor/load/open-device.js'),
          import('./kernel-bench.js'),
          import('./product-bench.js'),
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
