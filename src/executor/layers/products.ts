import { type Allocator, bufferFrom, type Device, type DeviceBuffer, DTYPE_BYTES } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Launch, LaunchCondition, LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import { joined, type Matrix } from '../model/matrix.js';
import type { ColumnTiles } from './fusions.js';
import { type ActivationEncoding, layoutOf, type SentRows, type Target, type WeightLayout } from './layouts/index.js';

export type { ActivationEncoding, SentRows, Target } from './layouts/index.js';

/** Rows that were just written, `columns` wide: the input of matrices. In one form at least. */
export interface Activation {
  readonly columns: number;
  readonly rows: Rows;
  readonly forms: Readonly<Partial<Record<ActivationEncoding, DeviceBuffer>>>;
}

/** Destination of experts' products: rows `stride` elements apart, from the element `column` of each on. */
export interface PlacedTarget {
  readonly y: DeviceBuffer;
  readonly stride: number;
  readonly column?: number;
}

/**
 * Products of weight matrices and rows, each in the forms it has for few and many rows, and their inputs in the forms that
 * the matrices take. All forms of one product compute the same bits for a row whatever the number of rows.
 */
export class Products {
  /** Input in f32 of the last conversion. */
  private readonly converted: DeviceBuffer;
  /** Encoding that `converted` holds. */
  private latest: { readonly x: Activation; readonly form: ActivationEncoding; readonly y: DeviceBuffer } | undefined;
  private readonly usesTiles: boolean;
  /** Column tiles, if 16-bit floats are multiplied as columns: on Hopper. */
  readonly columns: ColumnTiles | undefined;

  /**
   * @param widest the most columns of any input
   * @param saturated where activations beyond f16's range are counted
   */
  constructor(
    device: Device,
    memory: Allocator,
    private readonly plan: LaunchPlanRecorder,
    maxRows: number,
    widest: number,
    saturated: DeviceBuffer,
  ) {
    this.usesTiles = !device.isHost;
    this.columns = device.deviceClass === 'hopper' ? { rows: kernels.columnRows(maxRows), saturated } : undefined;
    this.converted = this.roomInAnyForm(memory, maxRows, widest);
  }

  /**
   * Products of one input, side by side in each row of y. Matrices that lie side by side take one launch.
   *
   * @param stride elements from a row of y to the next; default: as many as there are products
   */
  multiplyEach(
    matrices: readonly Matrix[],
    x: Activation,
    y: DeviceBuffer,
    within?: LaunchCondition,
    stride = matrices.reduce((sum, { rows }) => sum + rows, 0),
  ): void {
    this.eachJoined(matrices, (matrix, column) =>
      this.multiply(matrix, x, { y: bufferFrom(y, column), stride }, within),
    );
  }

  /** Calls `multiply` with what one launch multiplies, and its first column in a row of all products. */
  eachJoined(matrices: readonly Matrix[], multiply: (matrix: Matrix, column: number) => void): void {
    let column = 0;
    for (let first = 0; first < matrices.length; ) {
      let last = first + 1;
      while (last < matrices.length && joined(matrices.slice(first, last + 1)) !== undefined) last += 1;
      const matrix = joined(matrices.slice(first, last)) as Matrix;
      multiply(matrix, column);
      column += matrix.rows;
      first = last;
    }
  }

  /**
   * target = weight · x for each row.
   *
   * @param within the steps in which it is launched, by their rows; default: all
   */
  multiply(weight: Matrix, x: Activation, target: Target, within?: LaunchCondition): void {
    const layout = this.layoutOf(weight);
    const input = this.encoded(x, layout.inputEncoding(weight));
    layout.multiply(this.site(within), weight, input, x.rows, target);
  }

  /**
   * target = weight of each row's expert · x, rows sorted by it.
   *
   * @param within as in {@link multiply}
   */
  multiplyExperts(
    weight: Matrix,
    x: Activation,
    sent: SentRows,
    { y, stride, column = 0 }: PlacedTarget,
    within?: LaunchCondition,
  ): void {
    const layout = this.layoutOf(weight);
    const input = this.encoded(x, layout.inputEncoding(weight));
    layout.multiplyExperts(this.site(within), weight, input, sent, { y: bufferFrom(y, column), stride });
  }

  /** y = silu(gate · x) * (up · x) of gate and up side by side, in all steps but those of {@link gatedApart}. */
  multiplyGated(both: Matrix, input: Activation, form: kernels.TileType, y: DeviceBuffer): void {
    const x = this.encoded(input, form);
    this.layoutOf(both).gated?.multiply(this.site(), both, x, input.rows, form, y);
  }

  /** Layout of a matrix on this device. */
  layoutOf(weight: Matrix): WeightLayout {
    return layoutOf(weight, this.usesTiles);
  }

  private site(within?: LaunchCondition) {
    return { launch: launchWithin(this.plan, within), columns: this.columns };
  }

  /** The form in which a matrix takes its input. */
  encodingOf(weight: Matrix): ActivationEncoding {
    return this.layoutOf(weight).inputEncoding(weight);
  }

  /** The one form that all the matrices take; f32, from which every other is made, when they differ. */
  commonEncoding(matrices: readonly Matrix[]): ActivationEncoding {
    const forms = new Set(matrices.map((matrix) => this.encodingOf(matrix)));
    const [form] = forms;
    return forms.size === 1 && form !== undefined ? form : 'f32';
  }

  /** The activation in one form, made now unless it was just before: matrices that share their input share this too. */
  encoded(x: Activation, form: ActivationEncoding): DeviceBuffer {
    const given = x.forms[form];
    if (given !== undefined) return given;
    if (this.latest?.x === x && this.latest.form === form) return this.latest.y;
    const source = x.forms.f32 as DeviceBuffer;
    const { columns, rows } = x;
    const y = asEncoding(this.converted, form);
    if (form === 'q8') {
      const blocks = columns / kernels.Q8_BLOCK;
      this.plan.launch(kernels.quantizeQ8, { x: source, y, in: columns }, { rows: rows.count, blocks });
    } else if (this.columns === undefined) {
      this.plan.launch(kernels.convert(form as kernels.TileType), { x: source, y, in: columns }, { rows: rows.count });
    } else {
      const { rows: y_rows, saturated } = this.columns;
      const values = { x: source, y, saturated, in: columns, y_rows };
      const sizes = { rows: rows.count, chunks: kernels.chunksOf(columns) };
      this.plan.launch(kernels.convertColumns(form as kernels.TileType), values, sizes);
    }
    this.latest = { x, form, y };
    return y;
  }

  /** Room for rows as columns; undefined where none are taken. */
  roomForColumnTiles(memory: Allocator, maxRows: number, columns: number): DeviceBuffer | undefined {
    return this.columns === undefined ? undefined : this.roomInAnyForm(memory, maxRows, columns);
  }

  /** Memory as attention writes a form into it; undefined: it writes f32. */
  attendedAs(memory: DeviceBuffer | undefined, form: ActivationEncoding): kernels.AttendedEncoding | undefined {
    if (memory === undefined || form === 'f32') return undefined;
    const y = asEncoding(memory, form);
    return form === 'q8' ? { form, y } : { form, y, columns: this.columns };
  }

  /** Room for rows of so many columns in f32, and in the form that their matrices take. */
  roomInBoth(memory: Allocator, maxRows: number, columns: number): { f32: DeviceBuffer; other: DeviceBuffer } {
    const f32 = memory.allocate('f32', maxRows * columns);
    return { f32, other: this.usesTiles ? this.roomInAnyForm(memory, maxRows, columns) : f32 };
  }

  /** Room for rows of so many columns in any form but f32. */
  roomInAnyForm(memory: Allocator, maxRows: number, columns: number): DeviceBuffer {
    const blocks = Math.ceil(columns / kernels.Q8_BLOCK);
    const inRows = maxRows * Math.max(blocks * kernels.Q8_BLOCK_BYTES, 2 * columns);
    const inColumnTiles = (this.columns?.rows ?? 0) * kernels.chunksOf(columns) * kernels.FRAGMENT_CHUNK * 2;
    return memory.allocate('u8', Math.max(inRows, inColumnTiles));
  }
}

/** Memory as elements of a form. */
export function asEncoding({ address, elements }: DeviceBuffer, form: ActivationEncoding): DeviceBuffer {
  const dtype = form === 'q8' ? 'u8' : form;
  return { address, dtype, elements: Math.floor(elements / DTYPE_BYTES[dtype]) };
}

/** The steps that meet both conditions, which are of the same count; there are some. */
export function bothOf(a?: LaunchCondition, b?: LaunchCondition): LaunchCondition | undefined {
  const both = intersection(a, b);
  if (both === 'never') throw new Error('no step meets both conditions');
  return both;
}

/** Launches in steps that meet a condition, beside those of their own. */
export function launchWithin(plan: LaunchPlanRecorder, within: LaunchCondition | undefined): Launch {
  return (contract, values, sizes, when) => {
    const both = intersection(when, within);
    if (both !== 'never') plan.launch(contract, values, sizes, both);
  };
}

/** The steps that meet both conditions, which are of the same count. */
function intersection(a?: LaunchCondition, b?: LaunchCondition): LaunchCondition | undefined | 'never' {
  if (a === undefined || b === undefined) return a ?? b;
  const atLeast = Math.max(a.atLeast ?? 0, b.atLeast ?? 0);
  const atMost = Math.min(a.atMost ?? Number.POSITIVE_INFINITY, b.atMost ?? Number.POSITIVE_INFINITY);
  if (atLeast > atMost) return 'never';
  return { count: a.count, atLeast, ...(Number.isFinite(atMost) && { atMost }) };
}
