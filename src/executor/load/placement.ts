import type { GgufTensor } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';
import { Device, DeviceScope } from '../device/device.js';
import { keepsNumerics } from '../layers/host-experts.js';
import { type Experts, expertMatrices, type StageGraph, valuesOf } from '../model/values.js';
import { CountingDevice, UNREAD } from './counting-device.js';
import { largest } from './largest.js';
import { type LoadOptions, STEP_TOKENS, STREAMED_STEP_TOKENS } from './load-options.js';
import type { LoadedModel, OpenedModel } from './loaded-model.js';

/** A load, to be tried on a device that counts. */
export type TriedLoad = (memory: DeviceScope, opened: OpenedModel, options: LoadOptions) => Promise<LoadedModel>;

/** Layers of routed experts, in their order; those of a prediction block are not among them. */
export function expertLayers({ prediction: _, ...graph }: StageGraph): readonly Experts[] {
  return [...valuesOf(graph)].filter((value): value is Experts => value.kind === 'experts');
}

/** Tensors that stay in the host's memory: matrices of the routed experts of the last layers that have any. */
export function tensorsOnHost(graph: StageGraph, layers: number): ReadonlySet<GgufTensor> {
  const routed = layers === 0 ? [] : expertLayers(graph).slice(-layers);
  return new Set(routed.flatMap((value) => expertMatrices(value).map(({ tensor }) => tensor)));
}

/** True if logits depend on which layers' experts stay in the host's memory. @param layers number of them */
export function changesNumerics(device: Device, graph: StageGraph, layers: number): boolean {
  const onHost = layers === 0 || device.isHost ? [] : expertLayers(graph).slice(-layers).flatMap(expertMatrices);
  return onHost.some((matrix) => !keepsNumerics(device, matrix));
}

/** Note of the placement that the process before this one chose. */
const NOTE = 'placement';
/**
 * Memory that a GPU's driver takes for itself during a load, and that is not counted: for code objects a share, and the most; for the graphs
 * of each part of a step between experts on the host, too (on an H100 some 12 MiB, as two loads that were too large suggest), and at most a share
 * of what a card has beyond 1 GiB.
 */
const DRIVER_SHARE = 1 / 32;
const MOST_DRIVER_BYTES = 512 << 20;
const PART_BYTES = 16 << 20;
const PARTS_SHARE = 1 / 8;

/** Experts in the host's memory, and steps with them. */
export interface Placement {
  /** Layers, the last that have any, whose routed experts stay in the host's memory. */
  readonly layers: number;
  /** Batched tokens per step where no number is given. */
  readonly stepTokens: number;
}

/**
 * Places routed experts. For auto their layers in the host's memory are the fewest with which a load without weights on a device that counts
 * is granted: none where the model fits, and where nothing helps, so that the load says why. Steps are long with experts on the host where
 * there is memory for such steps.
 *
 * @param memory of the load
 * @param load on a device that counts
 * @throws RocmForgeError `INVALID_OPTION` for a number that the model does not have, or a split
 */
export async function placeExperts(
  memory: readonly DeviceScope[],
  opened: OpenedModel,
  options: LoadOptions,
  graph: StageGraph,
  load: TriedLoad,
): Promise<Placement> {
  const { cpuExperts = 0, maxStepTokens, maxSequences, likelyCpuExperts } = options;
  const [{ device }] = memory as readonly [DeviceScope];
  const isSplit = memory.length > 1;
  const allOnDevice = { layers: 0, stepTokens: STEP_TOKENS };
  if (cpuExperts !== 'auto') checkLayers(cpuExperts, expertLayers(graph).length, isSplit);
  const count = isSplit || device.isHost ? 0 : expertLayers(graph).length;
  if (count === 0 || cpuExperts === 0) return allOnDevice;
  const note = device.kept?.noted(NOTE);
  const noted = note === undefined ? undefined : (JSON.parse(note) as Placement);
  if (noted !== undefined && (cpuExperts === 'auto' || cpuExperts === noted.layers)) return noted;
  const fits = (layers: number, stepTokens: number) => {
    const tried = { cpuExperts: layers, maxStepTokens: maxStepTokens || Math.max(maxSequences, stepTokens) };
    return isGranted(device, opened, { ...options, ...tried }, load);
  };
  let placement: Placement = allOnDevice;
  if (cpuExperts !== 'auto') {
    placement = { layers: cpuExperts, stepTokens: STEP_TOKENS };
    // Loads that are tried give a number of tokens.
    const isLong = maxStepTokens === 0 && (await fits(cpuExperts, STREAMED_STEP_TOKENS));
    if (isLong) placement = { ...placement, stepTokens: STREAMED_STEP_TOKENS };
  } else if (!(await fits(0, STEP_TOKENS))) {
    const likely = likelyCpuExperts === undefined ? undefined : count - likelyCpuExperts;
    for (const stepTokens of [STREAMED_STEP_TOKENS, STEP_TOKENS]) {
      if (!(await fits(count, stepTokens))) continue;
      // One more on the host leaves more room: the most on the device.
      const onDevice = await largest((n) => fits(count - n, stepTokens), count - 1, likely);
      placement = { layers: count - onDevice, stepTokens };
      break;
    }
  }
  await device.kept?.note(NOTE, JSON.stringify(placement));
  return placement;
}

function checkLayers(layers: number, count: number, isSplit: boolean): void {
  if (layers === 0) return;
  const refuse = (why: string): never => {
    throw new RocmForgeError('INVALID_OPTION', `--cpu-experts is ${layers}; ${why}`, { option: 'cpu-experts' });
  };
  if (count === 0) refuse('the model has no routed experts');
  if (layers > count) refuse(`the model has ${count} ${count === 1 ? 'layer' : 'layers'} with routed experts`);
  if (isSplit) refuse('it requires a model on one GPU, without --split');
}

/** True if a load without weights is granted memory on a device that counts what it takes. */
async function isGranted(
  { freeBytes, kind, target }: Device,
  { model, fingerprint }: OpenedModel,
  { deviceMemoryBytes: _, ...options }: LoadOptions,
  load: TriedLoad,
): Promise<boolean> {
  const layers = Number(options.cpuExperts);
  const codeBytes = layers === 0 ? 0 : Math.min(freeBytes * DRIVER_SHARE, MOST_DRIVER_BYTES);
  const driverBytes = codeBytes + Math.min(Math.max(0, freeBytes - 2 ** 30) * PARTS_SHARE, 2 * layers * PART_BYTES);
  const counting = new Device(new CountingDevice(Math.max(0, freeBytes - driverBytes)), kind, target);
  counting.opensHost = () => new Device(new CountingDevice(0), 'host', '');
  const scope = new DeviceScope(counting);
  try {
    const opening = { model, content: UNREAD, fingerprint };
    (await load(scope, opening, options)).release();
    return true;
  } catch (error) {
    if (error instanceof RocmForgeError && error.reason === 'OUT_OF_MEMORY') return false;
    throw error;
  }
}
