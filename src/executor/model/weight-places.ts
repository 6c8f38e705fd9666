import type { GgufTensor } from '../../lib/gguf/reader.js';
import type { Device } from '../device/device.js';
import { type Packing, packingOf } from './packing.js';
import { expertMatrices, type StageGraph, valuesOf } from './values.js';

/** Alignment of tensors in a GPU's memory. */
export const ALIGNMENT = 256;

/** Layout of a model's tensors in a GPU's memory. */
export class WeightPlaces {
  readonly packing: Packing;
  readonly isHost: boolean;
  /** Tensors that are multiplied together with each tensor. */
  private readonly products = new Map<GgufTensor, readonly GgufTensor[]>();

  constructor(
    device: Device,
    private readonly graph: StageGraph,
    onHostAlone: ReadonlySet<GgufTensor>,
  ) {
    this.packing = packingOf(device);
    this.isHost = device.isHost;
    for (const value of valuesOf(graph)) {
      if (value.kind === 'experts') {
        if (onHostAlone.has(value.down.tensor)) continue;
        for (const { tensor } of expertMatrices(value)) this.products.set(tensor, [tensor]);
        if (value.gate === undefined || value.up === undefined) continue;
        const both = [value.gate.tensor, value.up.tensor] as const;
        if (this.areOne(...both)) for (const tensor of both) this.products.set(tensor, both);
      }
      if (value.kind !== 'linear') continue;
      // A matrix may be multiplied twice: keys that are values too.
      const tensors = [...new Set(value.weights.map(({ tensor }) => tensor))];
      for (const tensor of tensors) this.products.set(tensor, tensors);
    }
  }

  multipliedWith(tensor: GgufTensor): readonly GgufTensor[] {
    return this.products.get(tensor) ?? [];
  }

  /** Both of a gate and an up of experts that are stored as one. */
  gateAndUp(tensor: GgufTensor): readonly GgufTensor[] | undefined {
    const both = this.multipliedWith(tensor);
    return tensor.dims.length === 3 && both.length === 2 ? both : undefined;
  }

  /** True if each expert's gate and up may lie as one matrix. */
  private areOne(gate: GgufTensor, up: GgufTensor): boolean {
    const bytes = this.packedBytes(gate);
    if (bytes === undefined || gate.type !== up.type || !this.packing.canFollow(gate)) return false;
    return (bytes / (gate.dims[2] as number)) % ALIGNMENT === 0;
  }

  /** Undefined where it lies as the file has it: what is read by rows does, and what is not multiplied. */
  packedBytes(tensor: GgufTensor): number | undefined {
    if (tensor === this.graph.embedding?.tensor || !this.products.has(tensor)) return undefined;
    return this.packing.bytes(tensor);
  }

  bytes(tensor: GgufTensor): number {
    return this.packedBytes(tensor) ?? tensor.bytes;
  }

  /** A tied embedding, which is read by rows as the file has it, and multiplied packed; undefined where there is none. */
  get tied(): GgufTensor | undefined {
    const { embedding, logits } = this.graph;
    return logits?.weights.find(({ tensor }) => tensor === embedding?.tensor)?.tensor;
  }

  /** Bytes of its second form. */
  get tiedBytes(): number {
    return (this.tied && this.packing.bytes(this.tied)) ?? 0;
  }
}
