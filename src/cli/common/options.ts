import { InvalidArgumentError, Option } from 'commander';
import type { KvCacheType } from '../../executor/kernels/index.js';
import { RocmForgeError } from '../../shared/errors.js';
import { SPLIT_KINDS, type SplitKind } from '../../shared/split.js';

/**
 * `HOST:PORT` or `unix:PATH`, as it is; what is obviously another form of address is refused with the form that is meant.
 */
export function address(text: string): string {
  const scheme = /^(?:https?|grpcs?|tcp):\/\//i.exec(text)?.[0];
  if (scheme !== undefined) {
    const rest = text.slice(scheme.length).replace(/\/.*$/s, '');
    throw new InvalidArgumentError(`Leave "${scheme}" out: give ${rest}.`);
  }
  if (/^:?\d+$/.test(text)) {
    throw new InvalidArgumentError(
      `Give the host too, as 127.0.0.1:${text.replace(':', '')}, or a socket as unix:PATH.`,
    );
  }
  return text;
}

/** {@link address}, of an option that may be given several times. */
export function addresses(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, address(text)];
}

/** A whole number from `least` on, up to `most`. */
export function wholeNumber(least: number, most = Number.POSITIVE_INFINITY): (text: string) => number {
  const where = Number.isFinite(most) ? `from ${least} to ${most}` : `from ${least} up`;
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < least || value > most)
      throw new InvalidArgumentError(`Give a whole number ${where}.`);
    return value;
  };
}

/** {@link wholeNumber}, of an option that may be given several times. */
export function wholeNumbers(least: number): (text: string, before?: readonly number[]) => readonly number[] {
  return (text, before = []) => [...before, wholeNumber(least)(text)];
}

/** An option's texts, in order; it may be given several times. */
export function texts(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/** A whole number of either sign that 32 bits hold. */
export function integer(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || (value | 0) !== value) throw new InvalidArgumentError('Give a whole number of 32 bits.');
  return value;
}

/** Milliseconds from 1 up, as many as a timer can wait. */
export function milliseconds(text: string): number {
  const value = wholeNumber(1)(text);
  if (value >= 2 ** 31) throw new InvalidArgumentError('Give at most 2147483647 ms.');
  return value;
}

/** Values of a kind, with commas between. */
export function listOf<T>(parse: (text: string) => T): (text: string) => readonly T[] {
  return (text) => text.split(',').map((part) => parse(part.trim()));
}

/** A number above 0. */
export function positive(text: string): number {
  const value = decimal(text);
  if (value <= 0) throw new InvalidArgumentError('Give a number above 0.');
  return value;
}

/** A finite number. */
export function decimal(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('Give a number.');
  return value;
}

/** `LEAST:MOST`, or one number for both; whole numbers from 1 up. */
export function range(text: string): readonly [least: number, most: number] {
  const [least, most] = text.split(':').map(wholeNumber(1));
  if (least === undefined || (most ?? least) < least) throw new InvalidArgumentError('Give a range such as 16:128.');
  return [least, most ?? least];
}

/** Bytes, with an optional K, M or G, which are powers of 1,024: 512M, 24GiB. */
export function byteCount(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(?:([KMG])i?)?B?$/i.exec(text);
  if (!match) throw new InvalidArgumentError('Give a size such as 512M or 24GiB.');
  const power = ['', 'K', 'M', 'G'].indexOf((match[2] ?? '').toUpperCase());
  return Math.floor(Number(match[1]) * 1024 ** power);
}

/** An unsigned 64-bit number. */
export function seed(text: string): bigint {
  if (!/^\d+$/.test(text) || BigInt(text) >= 1n << 64n)
    throw new InvalidArgumentError('Give an unsigned 64-bit number.');
  return BigInt(text);
}

export const DEFAULT_LISTEN = '127.0.0.1:50051';

const KV_CACHE_TYPES: readonly KvCacheType[] = ['f16', 'f32', 'q8_0'];

/** The help group of options that decide how much memory a model takes. */
const MEMORY_GROUP = 'Memory and batching:';

/** @param otherwise the default */
export const kvCacheTypeOptionOf = (otherwise: KvCacheType): Option =>
  new Option('--kv-cache-type <type>', 'element type of the KV cache; q8_0 takes half the memory of f16')
    .choices(KV_CACHE_TYPES)
    .default(otherwise)
    .helpGroup(MEMORY_GROUP);

export const kvCacheTypeOption = kvCacheTypeOptionOf('f16');

export const stateSnapshotsOption = new Option(
  '--state-snapshots <count>',
  'snapshots of recurrent state that the prefix cache keeps; 0 disables them (default: two per sequence; on a GPU at most a ' +
    'quarter of the memory left)',
)
  .argParser(wholeNumber(0))
  .helpGroup(MEMORY_GROUP);

export const cpuExpertsOption = new Option(
  '--cpu-experts <layers>',
  'layers, the last that have any, whose routed experts stay in host memory and run on the CPU (default: by --fit)',
)
  .argParser(wholeNumber(0))
  .helpGroup(MEMORY_GROUP);

/** The options, all in one group of a command's help. */
const grouped = (heading: string, options: readonly Option[]): readonly Option[] =>
  options.map((option) => option.helpGroup(heading));

/** Options of every command that serves a model itself. */
export const modelOptions = [
  ...grouped(MEMORY_GROUP, [
    new Option('--max-context <tokens>', 'context length (default: the model’s, at most 8192)').argParser(
      wholeNumber(1),
    ),
    new Option(
      '--max-sequences <count>',
      'sequences that run at once (default: 4 on the CPU; on a GPU up to 256, each with room for 2048 tokens)',
    ).argParser(wholeNumber(1)),
    new Option(
      '--max-step-tokens <count>',
      'batched tokens per step (default: 512, or one per sequence if that is more)',
    ).argParser(wholeNumber(1)),
    new Option(
      '--kv-memory <bytes>',
      'memory for the KV cache, such as 2G (default: context length × sequences on the CPU, the memory left on a GPU)',
    ).argParser(byteCount),
  ]),
  kvCacheTypeOption,
  stateSnapshotsOption,
  cpuExpertsOption,
  ...grouped(MEMORY_GROUP, [
    new Option(
      '--fit <mode>',
      'auto: routed experts of as few layers as necessary stay in host memory if the model does not fit the GPU; off: it is rejected',
    )
      .choices(['auto', 'off'])
      .default('auto'),
    new Option('--device-memory <bytes>', 'memory of each GPU to use, such as 16GiB (default: what is free)').argParser(
      byteCount,
    ),
  ]),
];

/** Options of every command that opens a device or starts an executor that does. */
export const deviceOptions = grouped('Device:', [
  new Option('--device <kind>', 'hip: AMD GPU; cuda: NVIDIA GPU; host: CPU; auto: a usable GPU, otherwise the CPU')
    .choices(['auto', 'hip', 'cuda', 'host'])
    .default('auto'),
  new Option('--gpu <number>', 'index of the GPU on its platform (default: the first usable one)').argParser(
    wholeNumber(0),
  ),
  new Option(
    '--threads <count>',
    'threads of the CPU backend (default: all processors that CPU quotas allow)',
  ).argParser(wholeNumber(1)),
  new Option('--kernels <folder>', 'built kernels (default: those of the package)'),
  new Option('--attention <kind>', 'fused, or one kernel per operation: slow, for comparison')
    .choices(['fused', 'unfused'])
    .default('fused'),
]);

const splitOptionsOf = (meaning: string) =>
  grouped('Several GPUs:', [
    new Option('--gpus <numbers>', `indices of several GPUs, such as 0,1: ${meaning}`).argParser(
      listOf(wholeNumber(0)),
    ),
    new Option(
      '--split <kind>',
      'layer: pipeline parallel, for memory; tensor: tensor parallel over 2, 4 or 8 GPUs, for speed',
    ).choices(SPLIT_KINDS),
    new Option(
      '--tensor-split <shares>',
      'with --split layer: share of the model on each GPU, such as 3,1 (default: by free memory)',
    ).argParser(listOf(positive)),
  ]);
/** Options of commands that start executors, each of which may split a model over several devices. */
export const splitOptions = splitOptionsOf('a replica on each, or with --split one model over all of them');
/** The same of commands with one executor. */
export const oneExecutorSplitOptions = splitOptionsOf('one model over all of them, with --split');

/** Authentication, limits and TLS of a gateway. */
export const trustOptions = grouped('Access:', [
  new Option(
    '--token-file <file>',
    'bearer tokens (API keys): lines of NAME sha256:HEX, as rocmforge token writes them',
  ),
  new Option('--jwks-file <file>', 'public keys (JWKS) that verify JWTs'),
  new Option('--jwt-issuer <issuer>', 'issuer (iss) that a JWT must have'),
  new Option('--jwt-audience <audience>', 'audience (aud) that a JWT must have'),
  new Option('--limits-file <file>', 'rate and concurrency limits per client, in JSON'),
  new Option('--tls-cert <file>', 'serve TLS with this certificate (PEM)'),
  new Option('--tls-key <file>', 'private key of --tls-cert (PEM)'),
  new Option('--tls-client-ca <file>', 'require client certificates signed by these authorities (PEM)'),
  new Option(
    '--trusted-proxies <addresses...>',
    'proxies whose X-Forwarded-For or Forwarded is accepted: IP addresses, networks such as 10.0.0.0/8, or unix for the socket file',
  ),
]);

/** Options by which a command authenticates to a gateway; a bearer token comes in `ROCMFORGE_TOKEN`. */
export const clientOptions = grouped('Gateway:', [
  new Option('--ca <file>', 'use TLS; authorities that sign the certificate of the gateway (PEM)'),
  new Option('--cert <file>', 'client certificate (PEM), if the gateway requires one'),
  new Option('--key <file>', 'private key of --cert (PEM)'),
]);

/** Help that follows the options of a command which calls a gateway. */
export const TOKEN_HELP =
  '\nThe environment variable ROCMFORGE_TOKEN holds the bearer token that is sent to the gateway at --address.';

/** For tests: slows the executor down, or makes it fault. */
export const testOptions = [
  new Option('--step-delay-ms <ms>', 'hold back each step’s answer').argParser(wholeNumber(0)).hideHelp(),
  new Option(
    '--plant-fault <fault>',
    'abort, exit, hang or sticky, with @TOKEN for steps of that token alone',
  ).hideHelp(),
];

/** Values of {@link splitOptions}. */
export interface SplitOptionValues {
  readonly gpus?: readonly number[];
  readonly split?: SplitKind;
  readonly tensorSplit?: readonly number[];
}

/**
 * @param otherwise what several GPUs are where nothing is split over them
 * @throws RocmForgeError `INVALID_OPTION` for options that need others
 */
export function checkSplit(
  { gpus = [], split, tensorSplit }: SplitOptionValues,
  otherwise: 'replicas' | 'nothing' = 'nothing',
): void {
  const refuse = (option: string, message: string): never => {
    throw new RocmForgeError('INVALID_OPTION', message, { option });
  };
  if (split !== 'layer' && tensorSplit !== undefined) refuse('tensor-split', '--tensor-split requires --split layer');
  if (split === undefined && gpus.length > 1 && otherwise === 'nothing')
    refuse('gpus', '--gpus with several GPUs requires --split layer or --split tensor');
  if (split !== undefined && gpus.length < 2)
    refuse('split', `--split ${split} requires several GPUs, such as --gpus 0,1`);
  if (tensorSplit !== undefined && tensorSplit.length !== gpus.length) {
    refuse('tensor-split', `--tensor-split has ${tensorSplit.length} shares for ${gpus.length} GPUs`);
  }
}

/** Values of {@link modelOptions}, {@link deviceOptions} and {@link splitOptions}. */
export interface ModelOptionValues extends SplitOptionValues {
  readonly maxContext?: number;
  readonly maxSequences?: number;
  readonly maxStepTokens?: number;
  readonly kvMemory?: number;
  readonly stateSnapshots?: number;
  readonly cpuExperts?: number;
  readonly fit?: 'auto' | 'off';
  readonly deviceMemory?: number;
  readonly kvCacheType: KvCacheType;
  readonly device: 'auto' | 'hip' | 'cuda' | 'host';
  readonly gpu?: number;
  readonly threads?: number;
  readonly kernels?: string;
  readonly attention?: 'fused' | 'unfused';
  readonly stepDelayMs?: number;
  readonly plantFault?: string;
}
