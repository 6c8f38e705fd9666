import { InvalidArgumentError, Option } from 'commander';
import type { KvCacheType } from '../executor/kernels/index.js';
import { RocmForgeError } from '../shared/errors.js';
import { SPLIT_KINDS, type SplitKind } from '../shared/split.js';

/** A whole number from `least` on, up to `most`. */
export function wholeNumber(least: number, most = Number.POSITIVE_INFINITY): (text: string) => number {
  const where = Number.isFinite(most) ? `from ${least} to ${most}` : `from ${least} up`;
  return (text) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < least || value > most)
      throw new InvalidArgumentError(`not a whole number ${where}`);
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
  if (text.trim() === '' || (value | 0) !== value) throw new InvalidArgumentError('not a whole number of 32 bits');
  return value;
}

/** Milliseconds from 1 up, as many as a timer can wait. */
export function milliseconds(text: string): number {
  const value = wholeNumber(1)(text);
  if (value >= 2 ** 31) throw new InvalidArgumentError('more than the 2147483647 ms that a timer can wait');
  return value;
}

/** Values of a kind, with commas between. */
export function listOf<T>(parse: (text: string) => T): (text: string) => readonly T[] {
  return (text) => text.split(',').map((part) => parse(part.trim()));
}

/** A number above 0. */
export function positive(text: string): number {
  const value = decimal(text);
  if (value <= 0) throw new InvalidArgumentError('not a number above 0');
  return value;
}

/** A finite number. */
export function decimal(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('not a number');
  return value;
}

/** `LEAST:MOST`, or one number for both; whole numbers from 1 up. */
export function range(text: string): readonly [least: number, most: number] {
  const [least, most] = text.split(':').map(wholeNumber(1));
  if (least === undefined || (most ?? least) < least) throw new InvalidArgumentError('not a range such as 16:128');
  return [least, most ?? least];
}

/** Bytes, with an optional K, M or G, which are powers of 1,024: 512M, 24GiB. */
export function byteCount(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(?:([KMG])i?)?B?$/i.exec(text);
  if (!match) throw new InvalidArgumentError('not a size such as 512M or 24GiB');
  const power = ['', 'K', 'M', 'G'].indexOf((match[2] ?? '').toUpperCase());
  return Math.floor(Number(match[1]) * 1024 ** power);
}

/** An unsigned 64-bit number. */
export function seed(text: string): bigint {
  if (!/^\d+$/.test(text) || BigInt(text) >= 1n << 64n) throw new InvalidArgumentError('not an unsigned 64-bit number');
  return BigInt(text);
}

export const DEFAULT_LISTEN = '127.0.0.1:50051';

const KV_CACHE_TYPES: readonly KvCacheType[] = ['f16', 'f32', 'q8_0'];

/** @param otherwise where nobody says which */
export const kvCacheTypeOptionOf = (otherwise: KvCacheType): Option =>
  new Option('--kv-cache-type <type>', 'element type of the KV cache; q8_0 takes half of f16’s memory')
    .choices(KV_CACHE_TYPES)
    .default(otherwise);

export const kvCacheTypeOption = kvCacheTypeOptionOf('f16');

export const stateSnapshotsOption = new Option(
  '--state-snapshots <count>',
  'states that the prefix cache keeps of a recurrent model, 0: none (default: two a sequence; on a GPU at most a quarter of what is left)',
).argParser(wholeNumber(0));

/** Options of every command that serves a model itself. */
export const modelOptions = [
  new Option('--max-context <tokens>', 'most tokens of one sequence (default: the model’s, at most 8192)').argParser(
    wholeNumber(1),
  ),
  new Option(
    '--max-sequences <count>',
    'most sequences that run at once (default: 4 on the host; on a GPU up to 256, each with room for 2048 tokens)',
  ).argParser(wholeNumber(1)),
  new Option(
    '--max-step-tokens <count>',
    'most token positions of one step (default: 512, or one a sequence where that is more)',
  ).argParser(wholeNumber(1)),
  new Option('--kv-memory <bytes>', 'memory for the KV cache, such as 2G (default: context × sequences)').argParser(
    byteCount,
  ),
  kvCacheTypeOption,
  stateSnapshotsOption,
];

/** Options of every command that opens a device or starts an executor that does. */
export const deviceOptions = [
  new Option('--device <kind>', 'where the model runs; auto prefers a GPU that can be used')
    .choices(['auto', 'hip', 'cuda', 'host'])
    .default('auto'),
  new Option('--gpu <number>', 'which of the platform’s GPUs (default: 0)').argParser(wholeNumber(0)),
  new Option(
    '--threads <count>',
    'threads of the host device (default: all processors, as far as CPU quotas allow)',
  ).argParser(wholeNumber(1)),
  new Option('--kernels <folder>', 'built kernels (default: the package’s own)'),
  new Option('--attention <form>', 'unfused: one kernel an operation, slow, to compare with')
    .choices(['fused', 'unfused'])
    .default('fused'),
];

/** Of commands that start an executor which may have a model split over several devices. */
export const splitOptions = [
  new Option(
    '--gpus <numbers>',
    'several of the platform’s GPUs, such as 0,1: a replica on each, or with --split a model over all of them',
  ).argParser(listOf(wholeNumber(0))),
  new Option(
    '--split <kind>',
    'layer: each of the GPUs computes some of the model’s layers; tensor: each of 2, 4 or 8 computes a part of every layer',
  ).choices(SPLIT_KINDS),
  new Option(
    '--tensor-split <shares>',
    'of --split layer, the parts of the model that each GPU gets, such as 3,1 (default: by their free memory)',
  ).argParser(listOf(positive)),
];

/** Who may call a gateway, how much, and over what. */
export const trustOptions = [
  new Option('--token-file <file>', 'bearer tokens, lines of NAME sha256:HEX as rocmforge token NAME writes them'),
  new Option('--jwks-file <file>', 'public keys of those whose JWTs are taken'),
  new Option('--jwt-issuer <issuer>', 'that a JWT must name'),
  new Option('--jwt-audience <audience>', 'that a JWT must name'),
  new Option('--limits-file <file>', 'how much each principal may, as JSON'),
  new Option('--tls-cert <file>', 'speak TLS with this certificate, in PEM'),
  new Option('--tls-key <file>', 'its private key, in PEM'),
  new Option('--tls-client-ca <file>', 'demand client certificates of these authorities'),
  new Option(
    '--trusted-proxies <addresses...>',
    'proxies whose X-Forwarded-For or Forwarded is believed: IP addresses, networks such as 10.0.0.0/8, or unix for the socket file',
  ),
];

/** How a command that calls a gateway shows who it is; a bearer token comes in `ROCMFORGE_TOKEN`. */
export const clientOptions = [
  new Option('--ca <file>', 'speak TLS with the gateway at --address; its certificate is of these authorities'),
  new Option('--cert <file>', 'a certificate of one’s own, where the gateway demands one'),
  new Option('--key <file>', 'its private key'),
];

/** For tests: slows the executor down, or makes it fault. */
export const testOptions = [
  new Option('--step-delay-ms <ms>', 'hold back each step’s answer').argParser(wholeNumber(0)).hideHelp(),
  new Option(
    '--plant-fault <fault>',
    'abort, exit, hang or sticky, with @TOKEN for steps of that token alone',
  ).hideHelp(),
];

/** What {@link splitOptions} give. */
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
  if (split !== 'layer' && tensorSplit !== undefined) refuse('tensor-split', '--tensor-split is of --split layer');
  if (split === undefined && gpus.length > 1 && otherwise === 'nothing')
    refuse('gpus', 'a model is on several GPUs where it is split: --split layer or --split tensor');
  if (split !== undefined && gpus.length < 2)
    refuse('split', `--split ${split} needs several devices, such as --gpus 0,1`);
  if (tensorSplit !== undefined && tensorSplit.length !== gpus.length) {
    refuse('tensor-split', `--tensor-split has ${tensorSplit.length} shares for ${gpus.length} GPUs`);
  }
}

/** What {@link modelOptions}, {@link deviceOptions} and {@link splitOptions} give. */
export interface ModelOptionValues extends SplitOptionValues {
  readonly maxContext?: number;
  readonly maxSequences?: number;
  readonly maxStepTokens?: number;
  readonly kvMemory?: number;
  readonly stateSnapshots?: number;
  readonly kvCacheType: KvCacheType;
  readonly device: 'auto' | 'hip' | 'cuda' | 'host';
  readonly gpu?: number;
  readonly threads?: number;
  readonly kernels?: string;
  readonly attention?: 'fused' | 'unfused';
  readonly stepDelayMs?: number;
  readonly plantFault?: string;
}
