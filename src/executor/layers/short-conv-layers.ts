import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Rows } from '../kernels/launch-plan.js';
import { replayRows, stateCopies } from '../model/slot-layout.js';
import { COUNT_SLICES } from '../model/step-counts.js';
import type { Linear, ShortConv } from '../model/values.js';
import { allocateStates, keptRows, type RecurrentSite } from './recurrent-layers.js';

/** Gated short convolutions, whose state is the products of the latest rows. */
export class ShortConvLayers {
  /**
   * By layer `[states, taps - 1, columns]`, and `[replay_rows, columns]`: products of rows with draft tokens.
   */
  private readonly layers: ReadonlyMap<number, { readonly kept: DeviceBuffer; readonly replay: DeviceBuffer }>;
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
    this.layers = new Map(
      convolutions.map(({ layer, taps, columns }) => {
        const kept = allocateStates(site, (taps - 1) * columns);
        return [layer, { kept, replay: f32(replayRows(limits) * columns) }];
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
    const { kept, replay } = this.layers.get(value.layer) as {
      readonly kept: DeviceBuffer;
      readonly replay: DeviceBuffer;
    };
    const dims = { rows: this.tokens.count, replay_rows: replayRows(limits) };
    product(value.of, this.projected);
    plan.launch(
      kernels.shortConv,
      {
        ...{ gates: this.projected, weight: weights.vector(value.convolution), y: this.out, columns, taps },
        ...{ kept, replay, row_slice: tables.at('rowSlice'), slices: tables.at('slices') },
      },
      { ...dims, states: stateCopies(limits), slices: { index: COUNT_SLICES, max: limits.maxSequences } },
    );
    // When it has read those of the slice before.
    if (limits.draftTokens !== undefined) {
      plan.launch(
        kernels.keepConvRows,
        { gates: this.projected, index: tables.at('keptRows'), replay, columns },
        { ...dims, kept: keptRows(limits) },
      );
    }
    return this.out;
  }
}
