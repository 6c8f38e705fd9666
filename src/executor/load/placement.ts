import { RocmForgeError } from '../../shared/errors.js';
import type { GgufTensor } from '../../shared/gguf/reader.js';
import { Device, DeviceScope } from '../device/device.js';
import { keepsNumerics } from '../layers/host-experts.js';
import { type Experts, expertMatrices, type StageGraph, valuesOf } from '../model/values.js';
import { CountingDevice, UNREAD } from './counting-device.js';
import { largest } from './largest.js';
import type { LoadOptions } from './load-options.js';
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

/** Note of the number of layers that the process before this one chose. */
const NOTE = 'cpu-experts';
/**
 * Memory that a GPU's driver takes for itself during a load, and that is not counted: for code objects a share, and the most; for the graphs
 * of each part of a step between experts on the host, too (on an H100 some 12 MiB, as two loads that were too large suggest), and at most a share
 * of what a card has beyond 1 GiB.
 */
const DRIVER_SHARE = 1 / 32;
const MOST_DRIVER_BYTES = 512 << 20;
const PART_BYTES = 16 << 20;
const PARTS_SHARE = 1 / 8;

/**
 * Number of layers, the last that have any, whose routed experts stay in the host's memory. For auto it is the smallest with which a load
 * without weights on a device that counts is granted: none where the model fits, and where nothing helps, so that the load says why.
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
): Promise<number> {
  const { cpuExperts = 0 } = options;
  const [{ device }] = memory as readonly [DeviceScope];
  const isSplit = memory.length > 1;
  if (cpuExperts !== 'auto') {
    checkLayers(cpuExperts, expertLayers(graph).length, isSplit);
    return cpuExperts;
  }
  const count = isSplit || device.isHost ? 0 : expertLayers(graph).length;
  if (count === 0) return 0;
  const noted = device.kept?.noted(NOTE);
  if (noted !== undefined) return Number(noted);
  const fits = (layers: number) => isGranted(device, opened, { ...options, cpuExperts: layers }, load);
  // One more on the host leaves more room: the most on the device.
  const onDevice = (await fits(0))
    ? count
    : (await fits(count))
      ? await largest((n) => fits(count - n), count - 1)
      : count;
  await device.kept?.note(NOTE, String(count - onDevice));
  return count - onDevice;
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
