import { isBlockType } from '../../executor/kernels/index.js';
import type { LoadOptions } from '../../executor/load/load-options.js';
import { type Devices, type LoadedModel, loadModel } from '../../executor/load/loaded-model.js';
import { openDevice } from '../../executor/load/open-device.js';
import { valuesOf } from '../../executor/model/values.js';
import { promptOf } from './invariance.js';
import { StepDriver } from './step-driver.js';

const PROMPT = 32;
const DECODED = 4;

/** Distance of a device's logits from the host's, and its bound. */
export interface BesideHost {
  /** Root mean square of the differences over that of the logits, the largest of all steps. */
  readonly relative: number;
  readonly bound: number;
}

export interface BesideHostOptions extends Pick<LoadOptions, 'kvCacheType' | 'attention' | 'split'> {
  /** Threads of the host. */
  readonly threads?: number;
}

/**
 * Runs one prompt and four more tokens on a device, or on several that it is split over, and on the host.
 *
 * The bound: a GPU rounds what its matrix units multiply to f16, the host does not, which is 2⁻¹² of a value in the root
 * mean square. 2 · layers such errors add to the residual stream independently, so √(2 · layers) of them remain; four
 * times that is accepted. With quantized weights, or keys and values, the rounded values are then rounded again, to int8: a difference of 2⁻¹²
 * sends about one in a hundred to the next step, whose size is some 2⁻⁵ of a value, which leaves 2⁻⁸; twice that.
 */
export async function besideHost(
  devices: Devices,
  path: string,
  { threads, attention, kvCacheType, split }: BesideHostOptions,
): Promise<BesideHost> {
  const limits = { maxContext: 64, maxSequences: 1, maxStepTokens: 64, kvMemoryBytes: 0, stateSnapshots: 0 };
  // Matrix units read no f32.
  const cache = kvCacheType === 'f32' ? 'f16' : kvCacheType;
  const load = (on: Devices, options: Pick<LoadOptions, 'attention' | 'split'> = {}) =>
    loadModel(on, { path, kvCacheType: cache, fingerprint: '', ...limits, ...options }, () => undefined);
  const host = openDevice({ kind: 'host', threads });
  const [onHost, onDevice] = [await load(host), await load(devices, { attention, split })];
  const [expected, actual] = [await logitsOf(onHost), await logitsOf(onDevice)];
  const { layers } = onHost.forward.model;
  const hasBlocks = [...valuesOf(onHost.graph)].some(
    (value) => value.kind === 'linear' && value.weights.some(({ type }) => isBlockType(type)),
  );
  const isQuantized = hasBlocks || cache === 'q8_0';
  const bound = Math.sqrt(2 * layers) * (isQuantized ? 2 * 2 ** -8 : 4 * 2 ** -12);
  const relative = expected.map((row, step) => {
    const other = actual[step] as Float32Array;
    let [difference, size] = [0, 0];
    for (let i = 0; i < row.length; i++) {
      difference += ((row[i] as number) - (other[i] as number)) ** 2;
      size += (row[i] as number) ** 2;
    }
    return Math.sqrt(difference / size);
  });
  for (const model of [onHost, onDevice]) model.release();
  // A NaN must not get lost in a comparison.
  return { relative: relative.reduce((a, b) => Math.max(a, b)), bound };
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
