import type { Device } from '../../executor/device/device.js';
import { allContracts } from '../../executor/kernels/index.js';
import type { LoadOptions } from '../../executor/load/load-options.js';
import {
  type Devices,
  type LoadedModel,
  loadModel,
  loadOpened,
  type OpenedModel,
} from '../../executor/load/loaded-model.js';
import { openDevice } from '../../executor/load/open-device.js';
import { MappedModel } from '../../executor/model/mapped-model.js';
import { isRecurrent, valuesOf } from '../../executor/model/values.js';
import { ModelFiles } from '../../lib/gguf/model-files.js';
import { readModelParameters } from '../../lib/gguf/model-parameters.js';
import { promptOf } from './invariance.js';
import { StepDriver } from './step-driver.js';
import { unquantized, unquantizedBytes } from './unquantized.js';

/** Tokens of a prompt. */
const PROMPT = 32;
const STEP_TOKENS = 64;
/** Sequences that are compared, and tokens of each that are decoded behind its prompt. */
interface Compared {
  readonly sequences: number;
  readonly decoded: number;
}
const COMPARED: Compared = { sequences: 1, decoded: 32 };
/** Several with experts: a row that went to another expert changes all that follow it in its sequence. */
const COMPARED_WITH_EXPERTS: Compared = { sequences: 16, decoded: 4 };
/** Share of the host's free memory that unquantized weights may take. */
const HOST_SHARE = 0.8;

/** Distance of a device's logits from the host's, and its bound. */
export interface BesideHost {
  /** See {@link distance}. */
  readonly relative: number;
  readonly bound: number;
}

export interface BesideHostOptions extends Pick<LoadOptions, 'kvCacheType' | 'attention' | 'split'> {
  /** Threads of the host. */
  readonly threads?: number | undefined;
}

/** Products that take activations as blocks of int8. */
const INT8_PRODUCTS: ReadonlySet<string> = new Set(
  allContracts
    .filter((contract) =>
      contract.arguments.some((one) => one.kind === 'buffer' && one.name === 'x' && one.dtype === 'u8'),
    )
    .map(({ name }) => name),
);

/**
 * Runs one prompt and 32 more tokens, of a model with experts 16 prompts and four tokens each, on a device, or on several that it is
 * split over, and on the host.
 *
 * The host's products of quantized weights round activations to int8. Where the device's do not, the host has the f16 values of these
 * weights instead, if its memory can hold them.
 *
 * The bound: a GPU rounds what its matrix units multiply to f16, the host does not, which is 2⁻¹² of a value in the root
 * mean square. 2 · layers such errors add to the residual stream independently, so √(2 · layers) of them remain; four
 * times that is accepted, eight times where quantized weights are rounded to f16 too, and twice as much where recurrent layers carry
 * such errors on. Where both round to int8, a difference of 2⁻¹² sends about one value in a hundred to the next step, whose size is
 * some 2⁻⁵ of a value, which leaves 2⁻⁸; twice that. These are of all rows together: a single one may be twice as far away.
 *
 * Where two experts' scores are nearer to each other than these roundings, the two sides may choose another expert. Such a row's
 * logits are no closer than those of another text, and rows behind it attend to it. No sequence depends on others, as the hashes
 * of `verify` show, so that a wrong kernel is wrong in all of them: of a model with experts, a quarter of the rows is to be within
 * twice the bound.
 */
export async function besideHost(devices: Devices, path: string, options: BesideHostOptions): Promise<BesideHost> {
  const { threads, attention, kvCacheType, split } = options;
  // Matrix units read no f32.
  const cache = kvCacheType === 'f32' ? 'f16' : kvCacheType;
  const files = new ModelFiles(path);
  try {
    const { model } = files;
    const hasExperts = readModelParameters(model).experts !== undefined;
    const compared = hasExperts ? COMPARED_WITH_EXPERTS : COMPARED;
    const load = { path, kvCacheType: cache, fingerprint: files.identity(), ...limitsOf(compared) };
    const onDevice = await resultsOf(
      await loadModel(devices, { ...load, attention, split }, () => undefined),
      compared,
    );

    const host = openDevice({ kind: 'host', threads });
    const unquantizedSize = unquantizedBytes(model);
    const isExact =
      !onDevice.roundsToInt8 && unquantizedSize > 0 && unquantizedSize < HOST_SHARE * process.availableMemory();
    const onHost = await resultsOf(await loadOnHost(host, files, load, isExact), compared);

    const roundsToInt8 = cache === 'q8_0' || (unquantizedSize > 0 && !isExact);
    const isDoubled = hasExperts || (isExact && onDevice.isRecurrent);
    return {
      relative: distance(onHost.logits, onDevice.logits, hasExperts),
      bound: boundOf(onDevice.layers, { roundsToInt8, isExact, isDoubled }),
    };
  } finally {
    files.close();
  }
}

/** Bound of {@link besideHost}. @param roundings which of them there are; `isExact`: quantized weights are rounded to f16 */
export function boundOf(
  layers: number,
  roundings: { readonly roundsToInt8: boolean; readonly isExact?: boolean; readonly isDoubled: boolean },
): number {
  const { roundsToInt8, isExact, isDoubled } = roundings;
  const each = roundsToInt8 ? 2 * 2 ** -8 : (isExact ? 8 : 4) * 2 ** -12;
  return Math.sqrt(2 * layers) * each * (isDoubled ? 2 : 1);
}

const limitsOf = ({ sequences, decoded }: Compared) => ({
  maxContext: PROMPT + decoded,
  maxSequences: sequences,
  maxStepTokens: STEP_TOKENS,
  kvMemoryBytes: 0,
  stateSnapshots: 0,
});

/** @param isExact with the f16 values of quantized weights */
async function loadOnHost(host: Device, files: ModelFiles, load: LoadOptions, isExact: boolean): Promise<LoadedModel> {
  let opened: OpenedModel = {
    model: files.model,
    content: new MappedModel(files.parts),
    fingerprint: load.fingerprint,
  };
  try {
    if (isExact) opened = await unquantized(host, opened);
    return await loadOpened(host, opened, load, () => undefined);
  } catch (error) {
    opened.content.close();
    throw error;
  }
}

interface Results {
  /** Logits of each sequence behind its prompt, then of its decoded tokens. */
  readonly logits: readonly Float32Array[];
  readonly layers: number;
  readonly isRecurrent: boolean;
  /** Its products round activations to int8. */
  readonly roundsToInt8: boolean;
}

/** Runs a loaded model, and releases it. */
async function resultsOf(loaded: LoadedModel, compared: Compared): Promise<Results> {
  try {
    const { model, kernels } = loaded.forward;
    return {
      logits: await logitsOf(loaded, compared),
      layers: model.layers,
      isRecurrent: [...valuesOf(loaded.graph)].some(isRecurrent),
      roundsToInt8: kernels.some((name) => INT8_PRODUCTS.has(name)),
    };
  } finally {
    loaded.release();
  }
}

/**
 * Distance of two lists of rows. A row's is the root mean square of its differences over that of the first one's values. NaN where
 * any row has one.
 *
 * @param hasExperts what a quarter of the rows is within; else the root mean square of all rows, or half of the largest if that is more
 */
export function distance(
  expected: readonly Float32Array[],
  actual: readonly Float32Array[],
  hasExperts: boolean,
): number {
  const rows = expected.map((row, step) => {
    const other = actual[step] as Float32Array;
    let [difference, size] = [0, 0];
    for (let i = 0; i < row.length; i++) {
      difference += ((row[i] as number) - (other[i] as number)) ** 2;
      size += (row[i] as number) ** 2;
    }
    return Math.sqrt(difference / size);
  });
  if (rows.length === 0 || rows.some(Number.isNaN)) return Number.NaN;
  rows.sort((a, b) => a - b);
  if (hasExperts) return rows[Math.ceil(rows.length / 4) - 1] as number;
  const mean = Math.sqrt(rows.reduce((sum, row) => sum + row * row, 0) / rows.length);
  return Math.max(mean, (rows.at(-1) as number) / 2);
}

async function logitsOf(loaded: LoadedModel, { sequences, decoded }: Compared): Promise<Float32Array[]> {
  const driver = new StepDriver(loaded.pipeline.last.device, loaded, 1n);
  const { vocabularySize } = loaded.forward.model;
  const rows: Float32Array[] = [];
  const slots = Array.from({ length: sequences }, (_, slot) => slot);
  const ofStep = STEP_TOKENS / PROMPT;
  for (let first = 0; first < sequences; first += ofStep) {
    const some = slots.slice(first, first + ofStep);
    const opens = some.map((slot) => [slot, promptOf(1 + slot, PROMPT + decoded, vocabularySize)] as const);
    const logits = await driver.step(
      some.map((slot) => [slot, 0, PROMPT, true]),
      opens,
    );
    rows.push(...logits.map((row) => row.slice()));
  }
  for (let i = 0; i < decoded; i++) {
    const logits = await driver.step(slots.map((slot) => [slot, PROMPT + i, 1, true]));
    rows.push(...logits.map((row) => row.slice()));
  }
  return rows;
}
