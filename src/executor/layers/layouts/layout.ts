import type { DeviceBuffer } from '../../device/device.js';
import type * as kernels from '../../kernels/index.js';
import type { Launch, LaunchCondition, Rows } from '../../kernels/launch-plan.js';
import type { Matrix } from '../../model/matrix.js';
import type { ColumnTiles } from '../fusions.js';

/** Encoding of a matrix's input: f32, quantized, or the 16 bits of a matrix unit. */
export type ActivationEncoding = 'f32' | 'q8' | kernels.TileType;

/** Destination of a product: rows `stride` elements apart. `accumulate`: it is added to the values there. */
export interface Target {
  readonly y: DeviceBuffer;
  readonly stride: number;
  readonly accumulate?: boolean;
}

/** Rows sorted by their experts. */
export interface SentRows extends kernels.ExpertRows {
  /** The run of each expert, `[runs, 3]`. */
  readonly table: DeviceBuffer;
}

/** Recorder of launches, and the column tiles of a device whose 16-bit activations are columns. */
export interface LaunchSite {
  readonly launch: Launch;
  readonly columns: ColumnTiles | undefined;
}

/**
 * Layout of weights in device memory: one implementation for rows as in the file, rows for matrix units, planes and fragments.
 * All products of a layout compute the same bits for a row whatever the number of rows.
 */
export interface WeightLayout {
  /** Encoding in which a matrix takes its input. */
  inputEncoding(weight: Matrix): ActivationEncoding;
  /** True if products of the matrix may be added to the values of their destination. */
  accumulates(weight: Matrix): boolean;
  /** target = weight · x for each row, `x` in {@link inputEncoding}. */
  multiply(site: LaunchSite, weight: Matrix, x: DeviceBuffer, rows: Rows, target: Target): void;
  /** target = weight of each row's expert · x, rows sorted by it. */
  multiplyExperts(site: LaunchSite, weight: Matrix, x: DeviceBuffer, sent: SentRows, target: Target): void;
  /** Products of gate and up with their SwiGLU in one launch; undefined if the layout has none. */
  readonly gated: GatedProduct | undefined;
  /** Launches of single-token steps that take a matrix; undefined if it is multiplied as in all other steps. */
  singleToken(weight: Matrix): SingleTokenProducts | undefined;
}

/** y = silu(gate · x) * (up · x), gate and up below each other. */
export interface GatedProduct {
  takes(both: Matrix): boolean;
  /** Steps in which a launch each of gate, up and SwiGLU is faster. */
  apart(both: Matrix, rows: Rows): LaunchCondition;
  /** Launches in all steps but those of {@link apart}. */
  multiply(
    site: LaunchSite,
    both: Matrix,
    x: DeviceBuffer,
    rows: Rows,
    encoding: kernels.TileType,
    y: DeviceBuffer,
  ): void;
}

/** Normalized input of a single-token product: `x` `[columns]`, its norm's weight, and sums of squares of `x`. */
export interface NormedInput {
  readonly x: DeviceBuffer;
  readonly norm: DeviceBuffer;
  readonly parts: DeviceBuffer;
  readonly eps: number;
}

/** Launches with one row; each normalizes its input itself, or leaves the sums of squares of its output. */
export interface SingleTokenProducts {
  /** True if a product may normalize its input. */
  normalizes(weight: Matrix): boolean;
  /** True if {@link multiply} adds a bias. */
  readonly addsBias: boolean;
  /** x += weight · input, and `parts` = sums of squares of x. */
  add(site: LaunchSite, weight: Matrix, input: DeviceBuffer, x: DeviceBuffer, parts: DeviceBuffer): void;
  /** y = weight · normalized input, plus the bias. */
  multiply(site: LaunchSite, weight: Matrix, input: NormedInput, y: DeviceBuffer, bias: DeviceBuffer | undefined): void;
  /** True if {@link gate} takes the matrices of gate and up. */
  gates(matrices: readonly Matrix[]): boolean;
  /** y = silu(gate · normalized input) * (up · normalized input), in the encoding that products of such weights take. */
  gate(site: LaunchSite, matrices: readonly Matrix[], input: NormedInput, y: DeviceBuffer): void;
}

/** A bias as a kernel takes it that may have none. */
export const biasOf = (bias: DeviceBuffer | undefined, { norm }: NormedInput) => ({
  bias: bias ?? norm,
  biased: Number(bias !== undefined),
});
