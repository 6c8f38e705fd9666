import { bufferFrom, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Rows, StepCount } from '../kernels/launch-plan.js';
import { stateCopies } from '../model/slot-layout.js';
import { COUNT_SLICES } from '../model/step-counts.js';
import { columnsOf, type Linear, type Mamba, mambaChannels } from '../model/values.js';
import { allocateStates, mambaElements, type RecurrentSite } from './recurrent-layers.js';

/** Elements that a layer keeps of each state. */
interface LayerStates {
  /** `[states, taps - 1, channels]`: the last rows before the convolution. */
  readonly kept: DeviceBuffer;
  /** `[states, heads, dim, state]` */
  readonly states: DeviceBuffer;
}

/** Mamba 2 layers. Rows of a sequence go through one after the other, from the state that the slice before left. */
export class MambaLayers {
  private readonly layers: ReadonlyMap<number, LayerStates>;
  /** `[rows, columns of the product]`: gate, then x, b and c, then dt. */
  private readonly projected: DeviceBuffer;
  /** `[rows, channels]` */
  private readonly convolved: DeviceBuffer;
  /** `[rows, heads * dim]` */
  private readonly out: DeviceBuffer;
  private readonly slices: StepCount;

  /** @param values at least one */
  constructor(
    private readonly site: RecurrentSite,
    values: readonly Mamba[],
    private readonly tokens: Rows,
  ) {
    const { memory, limits } = site;
    const f32 = (elements: number) => memory.allocate('f32', elements);
    const most = (size: (value: Mamba) => number) => limits.maxStepTokens * Math.max(...values.map(size));
    const ofStates = (elements: number) => allocateStates(site, elements);
    this.layers = new Map(
      values.map((value) => {
        const { kept, states } = mambaElements(value);
        return [value.layer, { kept: ofStates(kept), states: ofStates(states) }];
      }),
    );
    this.projected = f32(most(({ of }) => columnsOf(of, 0)));
    this.convolved = f32(most(mambaChannels));
    this.out = f32(most((value) => columnsOf(value, 0)));
    this.slices = { index: COUNT_SLICES, max: limits.maxSequences };
  }

  /** The value's rows in f32. @param product writes the products side by side */
  record(value: Mamba, product: (value: Linear, y: DeviceBuffer) => void): DeviceBuffer {
    const { plan, tables, weights, limits } = this.site;
    const { heads, dim, groups, state, taps, norm } = value;
    const { kept, states } = this.layers.get(value.layer) as LayerStates;
    const [inner, channels, stride] = [columnsOf(value, 0), mambaChannels(value), columnsOf(value.of, 0)];
    const from = (column: number) => bufferFrom(this.projected, column);
    const slices = tables.at('slices');
    const dims = { rows: this.tokens.count, states: stateCopies(limits), slices: this.slices };
    product(value.of, this.projected);
    plan.launch(
      kernels.causalConv,
      {
        ...{ x: from(inner), x_stride: stride, kept, row_slice: tables.at('rowSlice'), slices, y: this.convolved },
        ...{ weight: weights.vector(value.convolution), bias: weights.vector(value.convolutionBias), channels, taps },
      },
      dims,
    );
    plan.launch(
      kernels.mambaScan(state),
      {
        ...{ xbc: this.convolved, dt: from(inner + channels), gate: this.projected, states, slices, y: this.out },
        ...{ rate: weights.vector(value.rate), bias: weights.vector(value.bias), skip: weights.vector(value.skip) },
        ...{ heads, dim, groups, stride },
      },
      dims,
    );
    if (norm === undefined) return this.out;
    const sizes = { groups, width: inner / groups, eps: value.epsilon };
    const weight = weights.vector(norm);
    plan.launch(kernels.groupsNorm, { x: this.out, weight, ...sizes }, { rows: this.tokens.count });
    return this.out;
  }
}
