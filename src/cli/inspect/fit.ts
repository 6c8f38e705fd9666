import { type GpuPlatform, type GpuProperties, loadAddon } from '../../executor/device/addon.js';
import { HOPPER } from '../../executor/device/device.js';
import {
  countingGpu,
  type Fit,
  type FitDevice,
  fitModel,
  type Grant,
  gpuGroup,
  grantOn,
  type Most,
  presentGpu,
} from '../../executor/load/fit.js';
import { openDevice } from '../../executor/load/open-device.js';
import { ModelFiles, type ModelHeaders, type ModelPart } from '../../lib/gguf/model-files.js';
import { readServableModel } from '../../lib/gguf/servable-model.js';
import { RocmForgeError, typedError } from '../../shared/errors.js';
import type { OptionValues } from '../../shared/option-table.js';
import { DEFAULT_CONTEXT } from '../../shared/step-limits.js';
import type { INSPECT_OPTIONS } from '../command-options.js';
import { formatBytes } from '../common/bytes.js';
import { checkSplit } from '../common/options.js';
import { alignColumns } from './inspect.js';
import { trialSpeed } from './trial-speed.js';

/** More than any GPU has. */
const ENDLESS_BYTES = 2 ** 50;

/** Options of `inspect` that `--fit` reads. */
export type FitOptions = OptionValues<Omit<typeof INSPECT_OPTIONS, 'fit' | 'json'>>;

/** Limits of a model on a GPU, and of one that is there the speed, unless the model is split, an encoder or not on this machine. */
export interface FitWithSpeed extends Fit {
  /** Tokens a second of one sequence: see `trialSpeed`. */
  readonly tokensPerSecond?: number | undefined;
}

/** Result of `rocmforge inspect --fit`; plain data that survives JSON. */
export interface FitReport {
  readonly path: string;
  readonly context: number;
  readonly kvCacheType: FitOptions['kvCacheType'];
  /** On a GPU with more memory than is needed; sizes are those of any but Hopper's. */
  readonly withoutLimit: Grant;
  readonly devices: readonly FitWithSpeed[];
  /** GPUs that are here and cannot be used, and why. */
  readonly unusable: readonly string[];
}

/** An error with the loader's options under their names here: `--max-context` is `--context` of `--fit`. */
function inTermsOfFit(error: unknown): unknown {
  const typed = typedError(error);
  if (typed === undefined) return error;
  const message = typed.message.replaceAll(/--max-(context|sequences)/g, '--$1');
  return new RocmForgeError(typed.reason, message, typed.metadata, { cause: error });
}

/**
 * Contexts and sequences of a model that fit, found by loading it without its weights: on the GPUs that are here, or with counted
 * memory.
 *
 * @throws RocmForgeError of the reader and of the loader, for what no GPU would load
 */
export async function fitReport(file: string, options: FitOptions): Promise<FitReport> {
  const files = new ModelFiles(file);
  try {
    return await fitHeaders(file, files, options, files.parts);
  } finally {
    files.close();
  }
}

/**
 * {@link fitReport} of headers that were read.
 *
 * @param name of the model in the report
 * @param parts files of the model; absent if only its headers are here
 */
export async function fitHeaders(
  name: string,
  { model }: ModelHeaders,
  options: FitOptions,
  parts?: readonly ModelPart[],
): Promise<FitReport> {
  const { kvCacheType, stateSnapshots, gpus: numbers, split, tensorSplit: shares, deviceMemory } = options;
  checkSplit(options);
  if (options.memory !== undefined && deviceMemory !== undefined) {
    const message = '--memory assumes a GPU, and cannot be combined with --device-memory';
    throw new RocmForgeError('INVALID_OPTION', message, { option: 'memory' });
  }
  try {
    const parameters = readServableModel(model);
    const context = options.context ?? Math.min(parameters.contextLength, DEFAULT_CONTEXT);
    const { sequences = 0, cpuExperts } = options;
    const all = { model, kvCacheType, context, sequences, stateSnapshots };
    const withoutLimit = await grantOn(countingGpu('any', '', ENDLESS_BYTES), all);
    const question = { ...all, cpuExperts };
    const unusable: string[] = [];
    const gpus = options.memory === undefined ? presentGpus(unusable, numbers, deviceMemory) : imagined(options.memory);
    const devices: FitWithSpeed[] = [];
    for (const gpu of numbers === undefined ? gpus : groupsOf(gpus, numbers.length, options.memory !== undefined)) {
      const fit = await fitModel(gpu, { ...question, split, shares });
      const { device } = gpu;
      const isTried = device !== undefined && split === undefined && parts !== undefined && fit.granted !== null;
      devices.push(isTried ? { ...fit, tokensPerSecond: await trialSpeed(device, parts, question, fit.granted) } : fit);
    }
    return { path: name, context, kvCacheType, withoutLimit, devices, unusable };
  } catch (error) {
    throw inTermsOfFit(error);
  }
}

/** The report as text for a terminal. Ends with a newline. */
export function formatFitReport(report: FitReport): string {
  const { withoutLimit, context } = report;
  const rows: [string, string][] = [
    ['model', report.path],
    ['weights', formatBytes(withoutLimit.weightBytes)],
    ['KV cache', `${kvSizesOf(withoutLimit)}, ${report.kvCacheType}`],
    ...(withoutLimit.stateBytes === 0
      ? []
      : ([
          ['states', `${formatBytes(withoutLimit.stateBytesPerSequence)} a sequence, half of it a snapshot`],
        ] satisfies [string, string][])),
    ['workspace', `${formatBytes(withoutLimit.workspaceBytes)} for ${sizeOf(withoutLimit.sequences, context)}`],
    ...report.unusable.map((why): [string, string] => ['not used', why]),
    ...(report.devices.length === 0
      ? ([['GPUs', 'none; set its size with --memory 24GiB']] satisfies [string, string][])
      : []),
  ];
  return [...alignColumns(rows), ...report.devices.flatMap((fit) => ['', ...alignColumns(describeFit(fit))]), ''].join(
    '\n',
  );
}

function describeFit(fit: FitWithSpeed): [string, string][] {
  const { device, freeBytes, granted, refusal, longestContext, mostSequences, tokensPerSecond } = fit;
  const stages = granted?.stages ?? [];
  const inAll = stages.length > 1 ? 'in all ' : '';
  const most = ({ whole, shared }: Most, unit: string): string =>
    shared === 0
      ? 'none'
      : `${whole} ${unit} if each sequence may use its whole context, ${shared} if they share the KV cache`;
  return [
    ['GPU', `${device}, ${inAll}${formatBytes(freeBytes)} free`],
    ...(granted === null
      ? ([['refused', refusal ?? '']] satisfies [string, string][])
      : ([
          ['granted', `${sizeOf(granted.sequences, granted.context)}, ${granted.kvTokens} tokens in all`],
          ['', inAll + sizesOf(granted)],
          ...(granted.cpuExperts === 0 ? [] : [['', hostSizesOf(granted)] satisfies [string, string]]),
          ...stages.map(({ weightBytes, kvBytes, workspaceBytes }, i): [string, string] => [
            '',
            `GPU ${i + 1} of ${stages.length}: ${formatBytes(weightBytes)} of weights, ${formatBytes(kvBytes)} of KV cache, ` +
              `${formatBytes(workspaceBytes)} besides`,
          ]),
        ] satisfies [string, string][])),
    ...(tokensPerSecond === undefined
      ? []
      : ([['speed', `about ${tokensPerSecond.toFixed(0)} tokens/s of one sequence`]] satisfies [string, string][])),
    [`context`, `of ${longestContext.sequences} sequences: ${most(longestContext, 'tokens')}`],
    ['sequences', `of ${mostSequences.context} tokens: ${most(mostSequences, 'sequences')}`],
  ];
}

function sizesOf(granted: Grant): string {
  const { weightBytes, kvBytes, stateBytes, stateSnapshots, workspaceBytes, driverBytes } = granted;
  const sizes = [
    `${formatBytes(weightBytes)} of weights`,
    `${formatBytes(kvBytes)} of KV cache`,
    ...(stateBytes === 0 ? [] : [`${formatBytes(stateBytes)} of states, ${stateSnapshots} snapshots among them`]),
    `${formatBytes(workspaceBytes)} of workspace`,
    driverBytes === null
      ? 'without what a driver takes for itself'
      : `${formatBytes(driverBytes)} that the driver takes`,
  ];
  return sizes.join(', ');
}

function hostSizesOf({ cpuExperts, hostBytes }: Grant): string {
  const layers = cpuExperts === 1 ? 'the last layer that has' : `the last ${cpuExperts} layers that have`;
  return `in host memory ${formatBytes(hostBytes)}: the routed experts of ${layers} any`;
}

function kvSizesOf({ kvBytesPerToken, windowBytes }: Grant): string {
  const perToken = `${formatBytes(kvBytesPerToken)} a token`;
  return windowBytes === 0 ? perToken : `${perToken} and ${formatBytes(windowBytes)} a sequence for windows`;
}

function sizeOf(sequences: number, context: number): string {
  return `${sequences} ${sequences === 1 ? 'sequence' : 'sequences'} of ${context} tokens`;
}

/** Devices that a model is split over: all GPUs that are named, or as many of each that is only imagined. */
function groupsOf(gpus: readonly FitDevice[], count: number, areImagined: boolean): readonly FitDevice[] {
  if (areImagined) return gpus.map((gpu) => gpuGroup(Array<FitDevice>(count).fill(gpu)));
  return gpus.length < count ? [] : [gpuGroup(gpus)];
}

/** GPUs with so much memory free. On Hopper weights lie otherwise. */
function imagined(bytes: number): readonly FitDevice[] {
  return [countingGpu('an AMD GPU', '', bytes), countingGpu(`an NVIDIA GPU of ${HOPPER}`, HOPPER, bytes)];
}

/** The GPUs that can be used here, and what each has free. */
export function roomOnGpus(): readonly { readonly description: string; readonly freeBytes: number }[] {
  return presentGpus([]).map(({ description, freeBytes }) => ({ description, freeBytes }));
}

/**
 * @param numbers which of the first platform that has any; default: all of all platforms
 * @param memoryBytes of each that loads may take
 */
function presentGpus(unusable: string[], numbers?: readonly number[], memoryBytes?: number): readonly FitDevice[] {
  const gpus: FitDevice[] = [];
  for (const platform of ['hip', 'cuda'] as const) {
    const all = found(platform);
    // In the order of their shares.
    const wanted = numbers?.flatMap((number) => all.filter(({ ordinal }) => ordinal === number)) ?? all;
    if (numbers !== undefined && gpus.length > 0) break;
    for (const { ordinal, name } of wanted) {
      try {
        gpus.push(presentGpu(openDevice({ kind: platform, gpu: ordinal }), memoryBytes));
      } catch (error) {
        unusable.push(`${platform} ${ordinal}, ${name}: ${(error as Error).message}`);
      }
    }
  }
  return gpus;
}

/** None where the platform's driver is not installed. */
function found(platform: GpuPlatform): readonly GpuProperties[] {
  try {
    return loadAddon().probeGpu(platform).devices;
  } catch {
    return [];
  }
}
