import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Rows } from '../kernels/launch-plan.js';
import { stateCopies } from '../model/slot-layout.js';
import { COUNT_SLICES } from '../model/step-counts.js';
import type { Linear, ShortConv } from '../model/values.js';
import type { RecurrentSite } from './recurrent-layers.js';

/** Gated short convolutions, whose state is the products of the latest rows. */
export class ShortConvLayers {
  /** By layer `[states, taps - 1, columns]`. */
  private readonly kept: ReadonlyMap<number, DeviceBuffer>;
  /** `[rows, 3, columns]`: b, c and x of each row. */
  private readonly projected: DeviceBuffer;
  /** `[rows, columns]` */
  private readonly out: DeviceBuffer;

  /** @param convolutions at least one */
  constructor(
    private readonly site: RecurrentSite,
    convolutions: readonly ShortConv[],
    private readonly tokens: Rows,
  ) {
    const { memory, limits } = site;
    const f32 = (elements: number) => memory.allocate('f32', elements);
    const copies = stateCopies(limits);
    this.kept = new Map(
      convolutions.map(({ layer, taps, columns }) => {
        return [layer, memory.allocateKept('f32', copies * (taps - 1) * columns)] as const;
      }),
    );
    const columns = limits.maxStepTokens * Math.max(...convolutions.map((value) => value.columns));
    this.projected = f32(3 * columns);
    this.out = f32(columns);
  }

  /** The value's rows in f32. @param product writes the products side by side */
  record(value: ShortConv, product: (value: Linear, y: DeviceBuffer) => void): DeviceBuffer {
    const { plan, tables, weights, limits } = this.site;
    const { taps, columns } = value;
    product(value.of, this.projected);
    plan.launch(
      kernels.shortConv,
      {
        ...{ gates: this.projected, weight: weights.vector(value.convolution), y: this.out, columns, taps },
        ...{ kept: this.kept.get(value.layer) as DeviceBuffer },
        ...{ row_slice: tables.at('rowSlice'), slices: tables.at('slices') },
      },
      {
        rows: this.tokens.count,
        states: stateCopies(limits),
        slices: { index: COUNT_SLICES, max: limits.maxSequences },
      },
    );
    return this.out;
  }
}
