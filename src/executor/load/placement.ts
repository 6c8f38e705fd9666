import { RocmForgeError } from '../../shared/errors.js';
import type { GgufTensor } from '../../shared/gguf/reader.js';
import type { Device } from '../device/device.js';
import { keepsNumerics } from '../layers/host-experts.js';
import { type Experts, expertMatrices, type StageGraph, valuesOf } from '../model/values.js';

/** Layers of routed experts, in their order; those of a prediction block are not among them. */
export function expertLayers({ prediction: _, ...graph }: StageGraph): readonly Experts[] {
  return [...valuesOf(graph)].filter((value): value is Experts => value.kind === 'experts');
}

/**
 * Tensors that stay in the host's memory: matrices of the routed experts of the last layers that have any.
 *
 * @param layers number of such layers
 * @throws RocmForgeError `INVALID_OPTION` for a model without routed experts, or with fewer such layers
 */
export function tensorsOnHost(graph: StageGraph, layers: number): ReadonlySet<GgufTensor> {
  if (layers === 0) return new Set();
  const routed = expertLayers(graph);
  const refuse = (message: string): never => {
    throw new RocmForgeError('INVALID_OPTION', message, { option: 'cpu-experts' });
  };
  if (routed.length === 0) refuse(`--cpu-experts is ${layers}; the model has no routed experts`);
  if (layers > routed.length)
    refuse(`--cpu-experts is ${layers}; the model has ${routed.length} layers with routed experts`);
  return new Set(routed.slice(-layers).flatMap((value) => expertMatrices(value).map(({ tensor }) => tensor)));
}

/** True if logits depend on which layers' experts stay in the host's memory. @param layers number of them */
export function changesNumerics(device: Device, graph: StageGraph, layers: number): boolean {
  const onHost = layers === 0 || device.isHost ? [] : expertLayers(graph).slice(-layers).flatMap(expertMatrices);
  return onHost.some((matrix) => !keepsNumerics(device, matrix));
}
