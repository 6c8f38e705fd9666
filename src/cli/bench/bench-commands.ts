import type { Command } from 'commander';
import { MEMORY_OPTIONS } from '../../gateway/option-table.js';
import { DEVICE_OPTIONS } from '../../shared/executor-options.js';
import { flagOrFalse, grouped, option, preset, required } from '../../shared/option-table.js';
import { address, listOf, positive, range, text, wholeNumber, wholeNumbers } from '../../shared/option-types.js';
import { addOptions, CLIENT_OPTIONS, TOKEN_HELP } from '../common/options.js';
import { writeJson, writeText } from '../common/output.js';

const JSON_OPTION = { json: flagOrFalse('print JSON') };

// The prompt and what is generated decide the others.
const { kvCacheType, cpuExperts, fit, deviceMemoryBytes } = MEMORY_OPTIONS;
export const BENCH_OPTIONS = {
  ...grouped('Memory and batching:', {
    maxStepTokens: option('<count>', wholeNumber(1), 'batched tokens per step (default: those of the longest prompt)'),
    ...{ kvCacheType, cpuExperts, fit, deviceMemoryBytes },
  }),
  ...DEVICE_OPTIONS,
  ...grouped('Benchmark:', {
    model: option('<file>', text, 'GGUF file (required)'),
    promptTokens: preset(
      '<counts>',
      listOf(wholeNumber(1)),
      [128],
      'tokens of the prompt; with several, such as 512,4096, one row each',
      { defaultText: '128' },
    ),
    tokens: preset('<count>', wholeNumber(1), 64, 'tokens to generate'),
    repeats: preset('<count>', wholeNumber(1), 3, 'runs, of which the median is reported'),
    profile: flagOrFalse('print the time of each kernel in one decode step'),
    ...JSON_OPTION,
  }),
};

export const BENCH_SERVE_OPTIONS = {
  ...CLIENT_OPTIONS,
  address: required('<address>', address, 'HOST:PORT or unix:PATH of its gRPC API'),
  ...grouped('Load:', {
    rate: option('<requests/s>', positive, 'open loop: requests per second, at random times (Poisson)'),
    clients: preset('<count>', wholeNumber(1), 8, 'closed loop: concurrent clients, each with one request at a time'),
    seconds: preset('<seconds>', positive, 30, 'duration of the load'),
    requests: option('<count>', wholeNumber(1), 'closed loop: number of requests, instead of --seconds'),
    promptTokens: preset('<least:most>', range, [64, 512], 'tokens per prompt', { defaultText: '64:512' }),
    tokens: preset('<least:most>', range, [16, 128], 'tokens to generate', { defaultText: '16:128' }),
    sharedPrefix: preset('<tokens>', wholeNumber(0), 0, 'tokens of a prefix that prompts share'),
    prefixes: preset('<count>', wholeNumber(1), 1, 'different shared prefixes'),
    firstToken: preset('<id>', wholeNumber(0), 3, 'smallest token id in prompts'),
    connections: preset('<count>', wholeNumber(1), 4, 'gRPC connections'),
    seed: preset('<number>', wholeNumber(0), 1, 'seed of the requests'),
  }),
  ...grouped('Output:', {
    metrics: option(
      '<address>',
      text,
      'HOST:PORT of its metrics, to report queue time, preemptions and processor time',
    ),
    plot: option('<file>', text, 'write an SVG plot of the run, and of the run of --compare'),
    save: option('<file>', text, 'write the run as JSON, for --compare'),
    compare: option('<file>', text, 'saved run to compare this run with'),
    ...JSON_OPTION,
  }),
};

const { attention: _, ...KERNEL_DEVICE_OPTIONS } = DEVICE_OPTIONS;
export const BENCH_KERNELS_OPTIONS = {
  rows: option('<count...>', wholeNumbers(1), 'batched tokens, at most 512 (default: 1, 8 and on a GPU 512)'),
  blas: option(
    '[library]',
    text,
    'compare f16 matrix products with cuBLAS or rocBLAS instead (default: the installed library)',
  ),
  ...JSON_OPTION,
  ...KERNEL_DEVICE_OPTIONS,
};

/** `bench serve` and `bench kernels`. */
export function addBenchCommands(bench: Command): void {
  addOptions(bench.enablePositionalOptions().command('serve'), BENCH_SERVE_OPTIONS)
    .description('load-test a running gateway')
    .addHelpText('after', TOKEN_HELP)
    .action(async (options) => {
      const { benchServe } = await import('./bench-serve.js');
      await benchServe(options);
    });

  addOptions(bench.command('kernels'), BENCH_KERNELS_OPTIONS)
    .description(
      'benchmark fused kernels against the reference kernels they replace, in the shapes of Llama 8B, with warm caches; kernels ' +
        'missing from --kernels are skipped (build:kernels --twins builds all)',
    )
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
}
