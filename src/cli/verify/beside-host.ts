import { allContracts } from '../../executor/kernels/index.js';
import type { LoadOptions } from '../../executor/load/load-options.js';
import { type Devices, type LoadedModel, loadModel, loadOpened } from '../../executor/load/loaded-model.js';
import { openDevice } from '../../executor/load/open-device.js';
import { MappedModel } from '../../executor/model/mapped-model.js';
import { isRecurrent, valuesOf } from '../../executor/model/values.js';
import { ModelFiles } from '../../shared/gguf/model-files.js';
import { promptOf } from './invariance.js';
import { StepDriver } from './step-driver.js';
import { unquantized, unquantizedBytes } from './unquantized.js';

const PROMPT = 32;
const DECODED = 32;
const LIMITS = {
  maxContext: PROMPT + DECODED,
  maxSequences: 1,
  maxStepTokens: 64,
  kvMemoryBytes: 0,
  stateSnapshots: 0,
};
/** Share of the host's free memory that unquantized weights may take. */
const HOST_SHARE = 0.8;

/** Distance of a device's logits from the host's, and its bound. */
export interface BesideHost {
  /**
   * Root mean square of the differences over that of the logits: the largest of all rows, or, of a model with experts, what a quarter of
   * the rows is within.
   */
  readonly relative: number;
  readonly bound: number;
}

export interface BesideHostOptions extends Pick<LoadOptions, 'kvCacheType' | 'attention' | 'split'> {
  /** Threads of the host. */
  readonly threads?: number;
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
 * Runs one prompt and 32 more tokens on a device, or on several that it is split over, and on the host.
 *
 * The host's products of quantized weights round activations to int8. Where the device's do not, the host has the f16 values of these
 * weights instead, if its memory can hold them.
 *
 * The bound: a GPU rounds what its matrix units multiply to f16, the host does not, which is 2⁻¹² of a value in the root
 * mean square. 2 · layers such errors add to the residual stream independently, so √(2 · layers) of them remain; four
 * times that is accepted, eight times where quantized weights are rounded to f16 too, and twice as much where recurrent layers carry
 * such errors on. Where both round to int8, a difference of 2⁻¹² sends about one value in a hundred to the next step, whose size is
 * some 2⁻⁵ of a value, which leaves 2⁻⁸; twice that.
 *
 * Where two experts' scores are nearer to each other than these roundings, the two sides may choose another expert. Such a row's
 * logits are no closer than those of another text, and rows behind it attend to it. No row depends on others of its step, as the hashes
 * of `verify` show, so that a wrong kernel is wrong in all rows: of a model with experts, a quarter of them is to be within twice
 * the bound.
 */
export async function besideHost(devices: Devices, path: string, options: BesideHostOptions): Promise<BesideHost> {
  const { threads, attention, kvCacheType, split } = options;
  // Matrix units read no f32.
  const cache = kvCacheType === 'f32' ? 'f16' : kvCacheType;
  const load = { path, kvCacheType: cache, fingerprint: '', ...LIMITS };
  const onDevice = await loadModel(devices, { ...load, attention, split }, () => undefined);
  const { layers } = onDevice.forward.model;
  const values = [...valuesOf(onDevice.graph)];
  const isInt8 = onDevice.forward.kernels.some((name) => INT8_PRODUCTS.has(name));
  const actual = await logitsOf(onDevice);
  onDevice.release();

  const host = openDevice({ kind: 'host', threads });
  const files = new ModelFiles(path);
  const unquantizedSize = unquantizedBytes(files.model);
  const isExact = !isInt8 && unquantizedSize > 0 && unquantizedSize < HOST_SHARE * process.availableMemory();
  const opened = { model: files.model, content: new MappedModel(files.parts), fingerprint: files.identity() };
  files.close();
  const onHost = await loadOpened(host, isExact ? await unquantized(host, opened) : opened, load, () => undefined);
  const expected = await logitsOf(onHost);
  onHost.release();

  const hasExperts = values.some(({ kind }) => kind === 'experts');
  const roundsToInt8 = cache === 'q8_0' || (unquantizedSize > 0 && !isExact);
  const isDoubled = hasExperts || (isExact && values.some(isRecurrent));
  const toF16 = (isExact ? 8 : 4) * (isDoubled ? 2 : 1) * 2 ** -12;
  return {
    relative: distance(expected, actual, hasExperts ? 1 / 4 : 1),
    bound: Math.sqrt(2 * layers) * (roundsToInt8 ? 2 * 2 ** -8 : toF16),
  };
}

/**
 * Root mean square of the differences of two lists of rows over that of the first one's values, row by row: what a share of the rows is
 * within. NaN where any row has one.
 */
export function distance(expected: readonly Float32Array[], actual: readonly Float32Array[], share: number): number {
  const rows = expected.map((row, step) => {
    const other = actual[step] as Float32Array;
    let [difference, size] = [0, 0];
    for (let i = 0; i < row.length; i++) {
      difference += ((row[i] as number) - (other[i] as number)) ** 2;
      size += (row[i] as number) ** 2;
    }
    return Math.sqrt(difference / size);
  });
  if (rows.some(Number.isNaN)) return Number.NaN;
  return rows.sort((a, b) => a - b)[Math.ceil(share * rows.length) - 1] ?? Number.NaN;
}

async function logitsOf(model: LoadedModel): Promise<Float32Array[]> {
  const driver = new StepDriver(model.pipeline.last.device, model, 1n);
  const sequence = promptOf(1, PROMPT + DECODED, model.forward.model.vocabularySize);
  const rows = [...(await driver.step([[0, 0, PROMPT, true]], [[0, sequence]]))].map((row) => row.slice());
  for (let i = 0; i < DECODED; i++) {
    const [row] = await driver.step([[0, PROMPT + i, 1, true]]);
    rows.push((row as Float32Array).slice());
  }
  return rows;
}
