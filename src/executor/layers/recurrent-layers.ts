import { bufferFrom, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchPlanRecorder, Rows, StepCount } from '../kernels/launch-plan.js';
import type { Limits } from '../model/limits.js';
import { replayRows, stateCopies } from '../model/slot-layout.js';
import { COUNT_KEPT, COUNT_SLICES } from '../model/step-counts.js';
import type { StepTables } from '../model/step-tables.js';
import {
  type Attention,
  columnsOf,
  type DeltaNet,
  type Linear,
  type Mamba,
  mambaChannels,
  type Recurrent,
} from '../model/values.js';
import type { Weights } from '../model/weights.js';

/** Arguments with which recurrent layers are recorded. */
export interface RecurrentSite {
  readonly memory: DeviceScope;
  readonly plan: LaunchPlanRecorder;
  readonly tables: StepTables;
  readonly limits: Limits;
  readonly weights: Weights;
  /** Receives the memory of each part of the states. */
  readonly states: DeviceBuffer[];
}

/** Memory of a part of a layer's states, of so many elements a state. */
export function allocateStates({ memory, limits, states }: RecurrentSite, elements: number): DeviceBuffer {
  const buffer = memory.allocateKept('f32', stateCopies(limits) * elements);
  states.push(buffer);
  return buffer;
}

/** Elements that a layer keeps of each state. */
interface LayerStates {
  /** `[states, 3, channels]`: the last rows before the convolution. */
  readonly kept: DeviceBuffer;
  /** `[states, value_heads, dim, dim]` */
  readonly states: DeviceBuffer;
  /** `[replay_rows, 2 * (channels + value_heads)]`: inputs of rows with draft tokens. */
  readonly replay: DeviceBuffer;
}

const channelsOf = ({ keyHeads, valueHeads, dim }: DeltaNet): number => (2 * keyHeads + valueHeads) * dim;

/** Elements of one of a layer's states. */
const elementsOf = (net: DeltaNet): { readonly kept: number; readonly states: number } => ({
  kept: (kernels.DELTA_TAPS - 1) * channelsOf(net),
  states: net.valueHeads * net.dim * net.dim,
});

/** Elements of one of a state-space layer's states: the last rows before its convolution, and `[heads, dim, state]`. */
export const mambaElements = (value: Mamba): { readonly kept: number; readonly states: number } => ({
  kept: (value.taps - 1) * mambaChannels(value),
  states: value.heads * value.dim * value.state,
});

/** Rows of a step whose inputs are kept. */
export const keptRows = ({ maxSequences }: Limits): StepCount => ({ index: COUNT_KEPT, max: maxSequences });

/** Bytes of each part of one state of all layers, in the order in which their memory is allocated. */
function partBytes(layers: readonly Recurrent[]): readonly number[] {
  const elements = layers.flatMap((value) => {
    if (value.kind === 'short-conv') return [(value.taps - 1) * value.columns];
    const { kept, states } = value.kind === 'mamba' ? mambaElements(value) : elementsOf(value);
    return [kept, states];
  });
  return elements.map((count) => count * Float32Array.BYTES_PER_ELEMENT);
}

/** Bytes of one state over all layers: a snapshot, or one of a slot's two copies. */
export const stateBytes = (layers: readonly Recurrent[]): number =>
  partBytes(layers).reduce((sum, bytes) => sum + bytes, 0);

/** Bytes of each allocation of states, those of slots and snapshots. */
export const stateSizes = (layers: readonly Recurrent[], limits: Limits): readonly number[] =>
  partBytes(layers).map((bytes) => stateCopies(limits) * bytes);

/**
 * Gated delta nets, and attention whose heads are gated, as the models have it that mix both. Rows of a sequence go through a
 * net one after the other, in steps of any size, from the state that the slice before left.
 */
export class RecurrentLayers {
  private readonly layers: ReadonlyMap<number, LayerStates>;
  /** Inputs of a delta net, `[rows, columns of its product]`. */
  private readonly projected: DeviceBuffer;
  /** `[rows, channels]` */
  private readonly convolved: DeviceBuffer;
  /** `[rows, value_heads, dim]` */
  private readonly out: DeviceBuffer;
  private readonly slices: StepCount;

  /** @param nets at least one */
  constructor(
    private readonly site: RecurrentSite,
    nets: readonly DeltaNet[],
    private readonly tokens: Rows,
  ) {
    const { memory, limits } = site;
    const f32 = (elements: number) => memory.allocate('f32', elements);
    const most = (size: (net: DeltaNet) => number) => limits.maxStepTokens * Math.max(...nets.map(size));
    const ofStates = (elements: number) => allocateStates(site, elements);
    this.layers = new Map(
      nets.map((net) => {
        const { kept, states } = elementsOf(net);
        const replay = replayRows(limits) * 2 * (channelsOf(net) + net.valueHeads);
        return [net.layer, { kept: ofStates(kept), states: ofStates(states), replay: f32(replay) }];
      }),
    );
    this.projected = f32(most(({ of }) => columnsOf(of, 0)));
    this.convolved = f32(most(channelsOf));
    this.out = f32(most((net) => columnsOf(net, 0)));
    this.slices = { index: COUNT_SLICES, max: limits.maxSequences };
  }

  /** The net's rows in f32. @param product writes the products side by side */
  record(net: DeltaNet, product: (value: Linear, y: DeviceBuffer) => void): DeviceBuffer {
    const { plan, tables, weights, limits } = this.site;
    const { keyHeads: key_heads, valueHeads: value_heads, dim, epsilon: eps } = net;
    const { kept, states, replay } = this.layers.get(net.layer) as LayerStates;
    const columns = columnsOf(net.of, 0);
    const [values, channels] = [columnsOf(net, 0), channelsOf(net)];
    // In a group betas come first.
    const alphas = net.isGrouped ? value_heads / key_heads : value_heads;
    const from = (column: number) => bufferFrom(this.projected, column);
    const slices = tables.at('slices');
    const dims = { rows: this.tokens.count, replay_rows: replayRows(limits) };
    const sliced = { ...dims, states: stateCopies(limits), slices: this.slices };
    const gates = { beta: from(channels + values), alpha: from(channels + values + alphas) };
    product(net.of, this.projected);
    plan.launch(
      kernels.deltaConv,
      {
        ...{ x: this.projected, x_stride: columns, weight: weights.vector(net.convolution), kept, replay },
        ...{ row_slice: tables.at('rowSlice'), slices, y: this.convolved, key_heads, value_heads, dim, eps },
      },
      sliced,
    );
    plan.launch(
      kernels.deltaNet(dim),
      {
        ...{ qkv: this.convolved, rate: weights.vector(net.rate), bias: weights.vector(net.bias), states, replay },
        grouped: Number(net.isGrouped ?? false),
        ...{ ...gates, gate_stride: columns, slices, y: this.out, key_heads, value_heads },
      },
      sliced,
    );
    // When both have read those of the slice before.
    if (limits.draftTokens !== undefined) {
      plan.launch(
        kernels.keepDeltaRows,
        {
          ...{ x: this.projected, qkv: this.convolved, ...gates, index: tables.at('keptRows'), replay },
          ...{ key_heads, value_heads, dim, x_stride: columns },
        },
        { ...dims, kept: keptRows(limits) },
      );
    }
    const gate = { gate: from(channels), gate_stride: columns };
    plan.launch(
      kernels.gatedNorm,
      { x: this.out, ...gate, weight: weights.vector(net.norm), heads: value_heads, dim, eps },
      { rows: this.tokens.count },
    );
    return this.out;
  }
}

/** Attention whose heads of q bring a gate each. */
export class QueryGates {
  /** `[rows, 2 * heads + 2 * kv_heads, head_dim]` */
  readonly gatedQkv: DeviceBuffer;
  /** `[rows, heads, head_dim]` */
  private readonly gates: DeviceBuffer;

  /** @param attentions gated ones; at least one */
  constructor(
    private readonly plan: LaunchPlanRecorder,
    memory: DeviceScope,
    attentions: readonly Attention[],
    private readonly tokens: Rows,
  ) {
    const most = (size: (value: Attention) => number) => tokens.count.max * Math.max(...attentions.map(size));
    this.gatedQkv = memory.allocate(
      'f32',
      most(({ qkv }) => columnsOf(qkv, 0)),
    );
    this.gates = memory.allocate(
      'f32',
      most((value) => columnsOf(value, 0)),
    );
  }

  /** qkv = what {@link gatedQkv} holds, without the gates. */
  split({ heads, kvHeads: kv_heads, headDim: head_dim }: Attention, qkv: DeviceBuffer): void {
    const values = { gated: this.gatedQkv, qkv, gate: this.gates, heads, kv_heads, head_dim };
    this.plan.launch(kernels.splitQueryGates, values, { rows: this.tokens.count });
  }

  /** y *= the sigmoid of the gates */
  apply(value: Attention, y: DeviceBuffer): void {
    const values = { y, gate: this.gates, columns: columnsOf(value, 0) };
    this.plan.launch(kernels.sigmoidGate, values, { rows: this.tokens.count });
  }
}
