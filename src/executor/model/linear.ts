import type { Allocator, DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import type { LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { Matrix } from './weights.js';

/** Rows of one step, and where the kernels read how many there are. */
export interface Rows {
  readonly count: StepCount;
  /** `[1]` i32 */
  readonly present: DeviceBuffer;
}

/** Rows of an f32 buffer that was just written, `columns` wide: the input of matrices. */
export interface Activation {
  readonly values: DeviceBuffer;
  readonly columns: number;
  readonly rows: Rows;
}

/** Where a product goes: rows `stride` elements apart. */
export interface Target {
  readonly y: DeviceBuffer;
  readonly stride: number;
}

/** The linear layers of a plan: matrices, their inputs in the forms they take, and what is fused with either. */
export class Linear {
  /** `[max rows, columns / 32, Q8_BLOCK_BYTES]`: the last activation that was quantized. */
  private readonly quantized: DeviceBuffer;
  private quantizedFrom: Activation | undefined;

  /** @param widest the most columns of any input */
  constructor(
    device: Allocator,
    private readonly plan: LaunchPlanRecorder,
    maxRows: number,
    widest: number,
  ) {
    const blocks = Math.ceil(widest / kernels.Q8_BLOCK);
    this.quantized = device.allocate('u8', maxRows * blocks * kernels.Q8_BLOCK_BYTES);
  }

  /** y = rms_norm(x) * weight, an activation for `matrices`. */
  normalized(
    x: DeviceBuffer,
    weight: DeviceBuffer,
    y: DeviceBuffer,
    columns: number,
    eps: number,
    rows: Rows,
  ): Activation {
    this.plan.launch(kernels.rmsNorm, { x, weight, y, hidden: columns, eps }, { rows: rows.count });
    return { values: y, columns, rows };
  }

  /** target = weight · x for each row. */
  multiply(weight: Matrix, x: Activation, { y, stride }: Target): void {
    const tokens = x.rows.present;
    const [out, columns] = [weight.rows, weight.columns];
    if (kernels.isBlockType(weight.type)) {
      const { blockElements } = kernels.blockFormat(weight.type);
      this.plan.launch(
        kernels.matmulQuantized(weight.type),
        {
          weight: weight.buffer,
          x: this.quantize(x),
          y,
          tokens,
          out,
          blocks: columns / blockElements,
          y_stride: stride,
        },
        { rows: x.rows.count },
      );
    } else {
      this.plan.launch(
        kernels.matmul(weight.type),
        { weight: weight.buffer, x: x.values, y, tokens, out, in: columns, x_stride: columns, y_stride: stride },
        { rows: x.rows.count },
      );
    }
  }

  /** The activation in int8, made now unless it was before: matrices that share their input share this too. */
  private quantize(x: Activation): DeviceBuffer {
    if (this.quantizedFrom !== x) {
      this.quantizedFrom = x;
      this.plan.launch(
        kernels.quantizeQ8,
        { x: x.values, y: this.quantized, in: x.columns },
        { rows: x.rows.count, blocks: x.columns / kernels.Q8_BLOCK },
      );
    }
    return this.quantized;
  }
}
