import type { Allocator, Device, DeviceBuffer } from '../device/device.js';
import { bufferFrom, DTYPE_BYTES } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import type { LaunchCondition, LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import { joined, type Matrix } from './matrix.js';

/** Rows of one step, and where the kernels read how many there are. */
export interface Rows {
  readonly count: StepCount;
  /** `[1]` i32 */
  readonly present: DeviceBuffer;
}

/** How a matrix takes its input: as it is, quantized, or in the 16 bits of a matrix unit. */
type InputForm = 'f32' | 'q8' | kernels.TileType;

/** Rows that were just written, `columns` wide: the input of matrices. In one form at least. */
export interface Activation {
  readonly columns: number;
  readonly rows: Rows;
  readonly forms: Readonly<Partial<Record<InputForm, DeviceBuffer>>>;
}

/** The most rows for which packed weights are multiplied a few rows at a time; matrix units are faster for more. */
const PACKED_SEVERAL = 63;

/** Where a product goes: rows `stride` elements apart. `accumulate`: it is added to what is there. */
export interface Target {
  readonly y: DeviceBuffer;
  readonly stride: number;
  readonly accumulate?: boolean;
}

/**
 * The linear layers of a plan: matrices, their inputs in the forms they take, and what is fused with either. All forms of
 * one product compute the same bits for a row whatever the number of rows.
 */
export class Linear {
  /** Room for one activation each in any form but f32: of a norm, of an MLP, and of what was in f32 before. */
  private readonly normed: DeviceBuffer;
  private readonly activated: DeviceBuffer;
  private readonly converted: DeviceBuffer;
  /** What `converted` holds. */
  private latest: { readonly x: Activation; readonly form: InputForm; readonly y: DeviceBuffer } | undefined;
  /** What products that cannot be added in place are added from. */
  private readonly delta: DeviceBuffer;
  private readonly usesTiles: boolean;

  /**
   * @param widest the most columns of any input
   * @param hidden columns of the residual stream
   */
  constructor(
    device: Device,
    memory: Allocator,
    private readonly plan: LaunchPlanRecorder,
    maxRows: number,
    widest: number,
    private readonly hidden: number,
  ) {
    this.usesTiles = !device.isHost;
    const room = (columns: number) => {
      const blocks = Math.ceil(columns / kernels.Q8_BLOCK);
      return memory.allocate('u8', maxRows * Math.max(blocks * kernels.Q8_BLOCK_BYTES, 2 * columns));
    };
    this.converted = room(widest);
    this.normed = this.usesTiles ? room(hidden) : this.converted;
    this.activated = this.usesTiles ? room(widest) : this.converted;
    this.delta = memory.allocate('f32', maxRows * hidden);
  }

  /**
   * rms_norm(x) * weight, in the form that the matrices take if they all take one.
   *
   * @param y where it goes in f32
   */
  normalized(
    x: DeviceBuffer,
    weight: DeviceBuffer,
    y: DeviceBuffer,
    eps: number,
    rows: Rows,
    matrices: readonly Matrix[],
  ): Activation {
    const { hidden } = this;
    const form = this.commonForm(matrices);
    const fused = asForm(this.normed, form);
    const dims = { rows: rows.count };
    if (form === 'f32') {
      this.plan.launch(kernels.rmsNorm, { x, weight, y, hidden, eps }, dims);
      return { columns: hidden, rows, forms: { f32: y } };
    }
    if (form === 'q8') {
      const blocks = hidden / kernels.Q8_BLOCK;
      this.plan.launch(kernels.rmsNormQuantize, { x, weight, y: fused, hidden, eps }, { ...dims, blocks });
    } else {
      this.plan.launch(kernels.rmsNormConvert(form), { x, weight, y: fused, hidden, eps }, dims);
    }
    return { columns: hidden, rows, forms: { [form]: fused } };
  }

  /**
   * silu(gate · x) * (up · x), in the form that `down` takes.
   *
   * @param gateUp room for both products, `[rows, 2, ffn]` f32
   * @param y where it goes in f32
   */
  swiglu(gate: Matrix, up: Matrix, x: Activation, down: Matrix, gateUp: DeviceBuffer, y: DeviceBuffer): Activation {
    const ffn = gate.rows;
    const form = this.commonForm([down]);
    const fused = asForm(this.activated, form);
    const both = joined([gate, up]);
    const activation = { columns: ffn, rows: x.rows, forms: { [form]: form === 'f32' ? y : fused } };
    const dims = { rows: x.rows.count };
    if ((form === 'f16' || form === 'bf16') && both !== undefined && this.formOf(both) === form) {
      // For few rows two launches are faster than one (82 and 61 µs for 28,672 × 4,096 on an H200).
      const few = this.when(x.rows.count, 'few', 2 * ffn);
      this.multiplyEach([gate, up], x, gateUp, few);
      this.plan.launch(kernels.swigluConvert(form), { gate_up: gateUp, y: fused, ffn }, dims, few);
      for (const tileForm of ['some', 'many'] as const) {
        this.plan.launch(
          kernels.gateUpSwigluTile(form, tileForm),
          { weight: both.buffer, x: this.inForm(x, form), y: fused, tokens: x.rows.present, ffn, hidden: x.columns },
          dims,
          this.when(x.rows.count, tileForm, 2 * ffn),
        );
      }
      return activation;
    }
    // Of packed weights one launch for all of it, gate_up_swiglu_packed, is slower (docs/benchmarks.md).
    this.multiplyEach([gate, up], x, gateUp);
    if (form === 'f32') {
      this.plan.launch(kernels.swiglu, { gate_up: gateUp, y, ffn }, dims);
    } else if (form === 'q8') {
      const blocks = ffn / kernels.Q8_BLOCK;
      this.plan.launch(kernels.swigluQuantize, { gate_up: gateUp, y: fused, ffn }, { ...dims, blocks });
    } else {
      this.plan.launch(kernels.swigluConvert(form), { gate_up: gateUp, y: fused, ffn }, dims);
    }
    return activation;
  }

  /** Products of one input, side by side in each row of y. Matrices that lie side by side take one launch. */
  multiplyEach(matrices: readonly Matrix[], x: Activation, y: DeviceBuffer, within?: LaunchCondition): void {
    const stride = matrices.reduce((sum, { rows }) => sum + rows, 0);
    let column = 0;
    for (let first = 0; first < matrices.length; ) {
      let last = first + 1;
      while (last < matrices.length && joined(matrices.slice(first, last + 1)) !== undefined) last += 1;
      const matrix = joined(matrices.slice(first, last)) as Matrix;
      this.multiply(matrix, x, { y: bufferFrom(y, column), stride }, within);
      column += matrix.rows;
      first = last;
    }
  }

  /** x += matrix · input, x the residual stream. */
  addTo(residual: DeviceBuffer, matrix: Matrix, input: Activation): void {
    const { hidden, plan } = this;
    if (this.formOf(matrix) !== 'f32' && this.canAccumulate(matrix)) {
      this.multiply(matrix, input, { y: residual, stride: hidden, accumulate: true });
      return;
    }
    this.multiply(matrix, input, { y: this.delta, stride: hidden });
    plan.launch(kernels.residualAdd, { x: residual, y: this.delta, hidden }, { rows: input.rows.count });
  }

  /**
   * target = weight · x for each row.
   *
   * @param within the steps in which it is launched, by their rows; default: all
   */
  multiply(weight: Matrix, x: Activation, { y, stride, accumulate = false }: Target, within?: LaunchCondition): void {
    const form = this.formOf(weight);
    const input = this.inForm(x, form);
    const shared = { weight: weight.buffer, y, tokens: x.rows.present, out: weight.rows, y_stride: stride };
    const dims = { rows: x.rows.count };
    const [columns, type] = [weight.columns, weight.type];
    const launch: LaunchPlanRecorder['launch'] = (contract, values, sizes, when) => {
      const both = intersection(when, within);
      if (both !== 'never') this.plan.launch(contract, values, sizes, both);
    };
    if (form === 'f16' || form === 'bf16') {
      const values = { ...shared, x: input, in: columns, accumulate: Number(accumulate) };
      for (const tileForm of kernels.TILE_FORM_NAMES) {
        launch(kernels.matmulTile(form, tileForm), values, dims, this.when(x.rows.count, tileForm, weight.rows));
      }
    } else if (kernels.isBlockType(type) && weight.packed) {
      const values = { ...shared, x: input, blocks: columns / kernels.Q8_BLOCK, accumulate: Number(accumulate) };
      const packed = { ...dims, row_bytes: kernels.packedRowBytes(type, columns) };
      const { count } = x.rows;
      launch(kernels.matmulPacked(type, 'one'), values, packed, { count, atMost: 1 });
      launch(kernels.matmulPacked(type), values, packed, { count, atLeast: 2, atMost: PACKED_SEVERAL });
      launch(kernels.matmulPackedTile(type), values, packed, { count, atLeast: PACKED_SEVERAL + 1 });
    } else if (kernels.isBlockType(type)) {
      const blocks = columns / kernels.blockFormat(type).blockElements;
      launch(kernels.matmulQuantized(type), { ...shared, x: input, blocks }, dims);
    } else {
      launch(kernels.matmul(type), { ...shared, x: input, in: columns, x_stride: columns }, dims);
    }
  }

  /** The rows for which a form of the tile kernels is the fastest. */
  private when(rows: StepCount, form: kernels.TileForm, out: number): LaunchCondition {
    return { count: rows, ...kernels.tileFormTokens(form, out) };
  }

  /** The one form that all the matrices take; f32, from which every other is made, when they differ. */
  private commonForm(matrices: readonly Matrix[]): InputForm {
    const forms = new Set(matrices.map((matrix) => this.formOf(matrix)));
    const [form] = forms;
    return this.usesTiles && forms.size === 1 && form !== undefined ? form : 'f32';
  }

  private formOf(weight: Matrix): InputForm {
    if (kernels.isBlockType(weight.type)) return 'q8';
    if (!this.usesTiles || weight.type === 'f32') return 'f32';
    return weight.columns % kernels.TILE_INPUT_MULTIPLE === 0 ? weight.type : 'f32';
  }

  private canAccumulate(weight: Matrix): boolean {
    return weight.packed || !kernels.isBlockType(weight.type);
  }

  /** The activation in one form, made now unless it was just before: matrices that share their input share this too. */
  private inForm(x: Activation, form: InputForm): DeviceBuffer {
    const given = x.forms[form];
    if (given !== undefined) return given;
    if (this.latest?.x === x && this.latest.form === form) return this.latest.y;
    const source = x.forms.f32 as DeviceBuffer;
    const { columns, rows } = x;
    const y = asForm(this.converted, form);
    if (form === 'q8') {
      const blocks = columns / kernels.Q8_BLOCK;
      this.plan.launch(kernels.quantizeQ8, { x: source, y, in: columns }, { rows: rows.count, blocks });
    } else {
      this.plan.launch(kernels.convert(form as kernels.TileType), { x: source, y, in: columns }, { rows: rows.count });
    }
    this.latest = { x, form, y };
    return y;
  }
}

/** The steps that meet both conditions, which are of the same count. */
function intersection(a?: LaunchCondition, b?: LaunchCondition): LaunchCondition | undefined | 'never' {
  if (a === undefined || b === undefined) return a ?? b;
  const atLeast = Math.max(a.atLeast ?? 0, b.atLeast ?? 0);
  const atMost = Math.min(a.atMost ?? Number.POSITIVE_INFINITY, b.atMost ?? Number.POSITIVE_INFINITY);
  if (atLeast > atMost) return 'never';
  return { count: a.count, atLeast, ...(Number.isFinite(atMost) && { atMost }) };
}

/** Memory as elements of a form. */
function asForm({ address, elements }: DeviceBuffer, form: InputForm): DeviceBuffer {
  const dtype = form === 'q8' ? 'u8' : form;
  return { address, dtype, elements: Math.floor(elements / DTYPE_BYTES[dtype]) };
}
