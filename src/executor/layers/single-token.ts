import { type Allocator, bufferFrom, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, LaunchPlanRecorder, Rows, ValuesOf } from '../kernels/launch-plan.js';
import type { Matrix } from '../model/matrix.js';
import type { Experts, Linear, Norm, Residual, Value } from '../model/values.js';
import type { ColumnTiles } from './fusions.js';
import { formatOf, fragmentSizes } from './layouts/fragments.js';
import { biasOf, type LaunchSite, type NormedInput, type SingleTokenProducts } from './layouts/layout.js';
import {
  fitsRow,
  isFragments,
  isWholeGroups,
  type ProductPart,
  packedParts,
  pairOf,
  singleTokenOf,
  takesParts,
} from './single-token-matrices.js';

/** A row whose norm is taken by what multiplies it. */
export interface NormedRow {
  readonly x: DeviceBuffer;
  readonly weight: DeviceBuffer;
  readonly epsilon: number;
}

/** Kernel arguments for synchronizing ranks, by name. */
export type RankValues = Readonly<Record<string, DeviceBuffer | number>>;

/** Choice of experts: arguments of `route_experts` beside the scores. */
export type Routing = Pick<ValuesOf<typeof kernels.routeExperts>, 'bias' | 'used' | 'scoring' | 'normalizes' | 'scale'>;

/**
 * Steps of one row, in fewer launches: a launch costs more there than what it does. Products that are added to the residual
 * stream leave the sums of its squares; products of its norm begin with these, and normalize it in each of their blocks.
 * All with the bits of the launches that they take the place of, which steps of more rows keep.
 */
export class SingleToken {
  readonly singleToken: LaunchCondition;
  readonly multiToken: LaunchCondition;
  /** Sums of the residual stream's squares, `[normParts(hidden)]` f32. */
  readonly parts: DeviceBuffer;
  /** True if what wrote the residual stream last left them. */
  private isSummed = false;
  /** Number of values computed for a norm. */
  private readonly uses = new Map<Norm, number>();

  /**
   * @param values all of the model, each as often as something is computed of it
   * @param hidden elements of a row of the residual stream
   * @param columns where activations are columns; undefined: they are rows
   */
  constructor(
    private readonly plan: LaunchPlanRecorder,
    memory: Allocator,
    values: readonly Value[],
    private readonly hidden: number,
    { count }: Rows,
    private readonly columns: ColumnTiles | undefined,
  ) {
    this.singleToken = { count, atLeast: 1, atMost: 1 };
    this.multiToken = { count, atLeast: 2 };
    this.parts = memory.allocate('f32', kernels.normParts(hidden));
    for (const value of values) if (value.kind === 'norm') this.uses.set(value, (this.uses.get(value) ?? 0) + 1);
  }

  /** The residual stream was written by what leaves the sums, or by what does not. */
  written(isSummed: boolean): void {
    this.isSummed = isSummed;
  }

  /** True if {@link add} takes the matrix. */
  canSum(weight: Matrix): boolean {
    return weight.rows === this.hidden && singleTokenOf(weight) !== undefined;
  }

  /** x += weight · input of one row, the input in the matrix's form. */
  add(weight: Matrix, input: DeviceBuffer, x: DeviceBuffer): void {
    const products = singleTokenOf(weight) as SingleTokenProducts;
    products.add(this.site(), weight, input, x, this.parts);
  }

  /** True if {@link addRanks} takes rows of the residual stream. */
  get canSumRanks(): boolean {
    return this.hidden % kernels.NORM_PART === 0;
  }

  /** y += the parts of all ranks, of one row. @param values, dims of {@link kernels.sumRanksSummed}, but for `parts` */
  addRanks(ranks: kernels.RankCount, values: RankValues, dims: Readonly<Record<string, number>>): void {
    const sizes = { ...dims, parts: kernels.normParts(this.hidden) };
    this.plan.launch(kernels.sumRanksSummed(ranks), { ...values, parts: this.parts }, sizes, this.singleToken);
  }

  /** True if products of the value's input may normalize it themselves. */
  canNormalize({ of }: Linear, matrices: readonly Matrix[]): boolean {
    if (!this.isSummedNorm(of)) return false;
    return matrices.every((matrix) => singleTokenOf(matrix)?.normalizes(matrix) === true);
  }

  /** A norm of the residual stream whose sums are there, and which nothing else is computed of. */
  private isSummedNorm(of: Residual | Value): boolean {
    if (of.kind !== 'norm' || of.of.kind !== 'residual' || of.isCentered || of.bias !== undefined) return false;
    return this.isSummed && this.uses.get(of) === 1;
  }

  /**
   * y = weights · norm of one row, the products of `parts` side by side.
   *
   * @param bias of all of them, `[out]` f32
   * @param when default: in steps of one row
   * @returns whether the bias was added
   */
  multiply(
    parts: readonly ProductPart[],
    row: NormedRow,
    y: DeviceBuffer,
    bias?: DeviceBuffer,
    when: LaunchCondition = this.singleToken,
  ): boolean {
    const isOne = parts.length === 1 && bias === undefined;
    if (!isOne && takesParts(parts)) {
      this.multiplyParts(parts, row, y, bias, when);
      return true;
    }
    const pair = pairOf(parts);
    if (pair !== undefined) {
      const { formats, values, dims } = pair;
      this.plan.launch(
        kernels.linearNormedPair(formats),
        { ...this.sharedOf(row, bias), ...values, y },
        { ...dims, biases: bias?.elements ?? 0 },
        when,
      );
      return bias !== undefined;
    }
    const isBiased = parts.every(({ matrix }) => singleTokenOf(matrix)?.addsBias);
    for (const { matrix, column } of parts) {
      const own = isBiased && bias !== undefined ? bufferFrom(bias, column) : undefined;
      singleTokenOf(matrix)?.multiply(this.site(when), matrix, this.inputOf(row), bufferFrom(y, column), own);
    }
    return isBiased && bias !== undefined;
  }

  /** True if {@link multiplyHeads} takes the matrices of q, k and v. */
  canRotate(parts: readonly ProductPart[]): boolean {
    return parts.every(({ matrix, column }) => fitsRow(matrix) && [matrix.rows, column].every(isWholeGroups));
  }

  /** q, k and v of one row, their biases added, rotated and stored. */
  multiplyHeads(
    parts: readonly ProductPart[],
    row: NormedRow,
    qkv: DeviceBuffer,
    bias: DeviceBuffer | undefined,
    { values, dims }: kernels.RotatedHeads,
  ): void {
    const own = { ...values, qkv, ...this.sharedOf(row, bias) };
    const pair = pairOf(parts);
    if (pair !== undefined) {
      const { formats, values: both, dims: sizes } = pair;
      this.plan.launch(
        kernels.linearRotatedPair(formats),
        { ...own, ...both },
        { ...dims, ...sizes, biases: bias?.elements ?? 0 },
        this.singleToken,
      );
      return;
    }
    for (const { matrix, column: first } of parts) {
      const { buffer: weight, rows: out, columns } = matrix;
      const sizes = { ...fragmentSizes(matrix), biases: bias?.elements ?? 0 };
      const kernel = kernels.linearRotated(formatOf(matrix));
      this.plan.launch(kernel, { ...own, weight, first, out, in: columns }, { ...dims, ...sizes }, this.singleToken);
    }
  }

  /** Kernel arguments for a row and a bias of products in fragments. */
  private sharedOf(row: NormedRow, bias: DeviceBuffer | undefined) {
    const input = this.inputOf(row);
    return { ...input, ...biasOf(bias, input), saturated: (this.columns as ColumnTiles).saturated };
  }

  private multiplyParts(
    parts: readonly ProductPart[],
    row: NormedRow,
    y: DeviceBuffer,
    bias: DeviceBuffer | undefined,
    when: LaunchCondition,
  ): void {
    const { columns } = (parts[0] as ProductPart).matrix;
    const [a, b, c] = packedParts(parts);
    const input = this.inputOf(row);
    const out = a.out + b.out + c.out;
    this.plan.launch(
      kernels.matmulNormedParts,
      {
        ...{ weight_0: a.weight, weight_1: b.weight, weight_2: c.weight },
        ...{ out_0: a.out, out_1: b.out, out_2: c.out, type_0: a.type, type_1: b.type, type_2: c.type },
        ...{ ...input, ...biasOf(bias, input), y, blocks: columns / kernels.Q8_BLOCK },
      },
      {
        ...{ row_bytes_0: a.bytes, row_bytes_1: b.bytes, row_bytes_2: c.bytes },
        ...{ in: columns, parts: kernels.normParts(columns), biases: bias ? out : 0 },
      },
      when,
    );
  }

  /** True if gate and up, which {@link multiply} takes, may be multiplied together with their SwiGLU. */
  canGate(matrices: readonly Matrix[]): boolean {
    return singleTokenOf(matrices[0] as Matrix)?.gates(matrices) === true;
  }

  /** y = silu(gate · norm) * (up · norm) of one row, in the encoding that products of such weights take. */
  gate(matrices: readonly Matrix[], row: NormedRow, y: DeviceBuffer): void {
    singleTokenOf(matrices[0] as Matrix)?.gate(this.site(), matrices, this.inputOf(row), y);
  }

  /** True if {@link addExperts} takes a layer of experts. */
  canRoute(
    { of, router, activation, biases, outputScales }: Experts,
    gateUp: readonly Matrix[],
    down: Matrix,
  ): boolean {
    if (!this.isSummedNorm(of) || router.bias !== undefined || biases !== undefined || activation !== 'silu')
      return false;
    if (
      router.groups !== undefined ||
      router.of !== undefined ||
      router.scoreScale !== undefined ||
      outputScales !== undefined
    )
      return false;
    const [both] = gateUp;
    if (both === undefined || gateUp.length > 1 || ![both, down].every(isFragments)) return false;
    const sizes = { hidden: this.hidden, ffn: down.columns, experts: router.weight.rows, used: router.used };
    return down.rows === this.hidden && kernels.fitsExperts(formatOf(both), formatOf(down), sizes);
  }

  /** row.x += what the experts that are chosen make of its norm. @param room for scores, and for what is gated */
  addExperts(
    router: Matrix,
    gateUp: Matrix,
    down: Matrix,
    by: Routing,
    row: NormedRow,
    { scores, gated }: { readonly scores: DeviceBuffer; readonly gated: DeviceBuffer },
  ): void {
    const { rows: hidden, columns: ffn, experts } = down as Required<Matrix>;
    const { saturated } = this.columns as ColumnTiles;
    const parts = kernels.normParts(hidden);
    const input = this.inputOf(row);
    const scored = { weight: router.buffer, ...input, y: scores, experts, in: hidden };
    this.plan.launch(kernels.routerScoresNormed, scored, { parts }, this.singleToken);
    const choice = { ...by, scores, experts };
    this.plan.launch(
      kernels.expertsSwiglu(formatOf(gateUp)),
      { weight: gateUp.buffer, ...input, ...choice, y: gated, saturated, ffn, hidden },
      { tiles: kernels.tilesOf(ffn), chunks: kernels.chunksOf(hidden), parts },
      this.singleToken,
    );
    this.plan.launch(
      kernels.expertsSummed(formatOf(down)),
      { weight: down.buffer, x: gated, ...choice, y: row.x, parts: this.parts, out: hidden, in: ffn },
      { tiles: kernels.tilesOf(hidden), chunks: kernels.chunksOf(ffn), parts },
      this.singleToken,
    );
  }

  private site(when = this.singleToken): LaunchSite {
    return {
      launch: (contract, values, sizes) => this.plan.launch(contract, values, sizes, when),
      columns: this.columns,
    };
  }

  private inputOf({ x, weight: norm, epsilon: eps }: NormedRow): NormedInput {
    return { x, norm, parts: this.parts, eps };
  }
}
