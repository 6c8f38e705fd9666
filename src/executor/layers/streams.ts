import { bufferFrom, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Matrix } from '../model/matrix.js';
import type { AltUp, Linear, MixedStreams } from '../model/values.js';
import type { StepSite } from './step-site.js';

/** Streams beside the residual stream: {@link AltUp}. */
export class Streams {
  /** The first stream as it was predicted; after a correction the corrected one times its weight: `[rows, hidden]`. */
  readonly kept: DeviceBuffer;
  /** Each `[rows, hidden]`. */
  private readonly others: readonly [DeviceBuffer, DeviceBuffer, DeviceBuffer];
  /** Products with the others, in turn: each `[rows, hidden]`. */
  private readonly made: readonly DeviceBuffer[];
  /** `[rows, streams]` */
  private readonly scores: DeviceBuffer;
  /** `[hidden]` of 1: the weight of a mixture that has none. */
  private readonly ones: DeviceBuffer;

  constructor(
    private readonly site: StepSite,
    private readonly altup: AltUp,
  ) {
    const { memory, tokens, model } = site;
    const rows = () => memory.allocate('f32', tokens.count.max * model.hiddenSize);
    this.kept = rows();
    this.others = [rows(), rows(), rows()];
    this.made = this.others.map(rows);
    this.scores = memory.allocate('f32', tokens.count.max * kernels.ALTUP_STREAMS);
    this.ones = memory.upload(new Float32Array(model.hiddenSize).fill(1));
  }

  /** Each other stream = its matrix · x, as long as x. */
  enter(): void {
    const { x } = this.site;
    for (const [i, other] of this.others.entries()) this.project(this.altup.entry, i, x, other);
  }

  /** x = the mean of x and of each other stream's matrix · that stream, as long as x. */
  leave(): void {
    const { plan, x, model, tokens } = this.site;
    const rows = tokens.count;
    for (const [i, other] of this.others.entries())
      this.project(this.altup.exit, i, other, this.made[i] as DeviceBuffer);
    for (const y of this.made) plan.launch(kernels.residualAdd, { x, y, hidden: model.hiddenSize }, { rows });
    const factor = 1 / kernels.ALTUP_STREAMS;
    plan.launch(kernels.scale('f32'), { x, columns: model.hiddenSize, factor }, { rows });
  }

  /** @param product writes products of the residual stream */
  mix(
    { step, of, scale, coefficients, weight }: MixedStreams,
    product: (value: Linear, y: DeviceBuffer) => void,
  ): void {
    const { plan, weights, x, model, tokens } = this.site;
    product(of, this.scores);
    const [second, third, fourth] = this.others;
    const values = {
      ...{ x, second, third, fourth, kept: this.kept, scores: this.scores, scale },
      weight: weight === undefined ? this.ones : weights.vector(weight),
      coefficients: weights.vector(coefficients),
      hidden: model.hiddenSize,
      terms: step === 'predicted' ? kernels.ALTUP_STREAMS : 1,
    };
    plan.launch(kernels.mixStreams, values, { rows: tokens.count });
  }

  /** Each other stream += y */
  add(y: DeviceBuffer): void {
    const { plan, model, tokens } = this.site;
    for (const x of this.others)
      plan.launch(kernels.residualAdd, { x, y, hidden: model.hiddenSize }, { rows: tokens.count });
  }

  /** y = the i-th matrix · source, as long as x. */
  private project({ weights }: Linear, i: number, source: DeviceBuffer, y: DeviceBuffer): void {
    const { products, plan, x, model, tokens } = this.site;
    const columns = model.hiddenSize;
    const [all] = weights.map((weight) => this.site.weights.matrix(weight)) as [Matrix];
    const { experts = 1, ...matrix } = all;
    const elements = matrix.buffer.elements / experts;
    const own = { ...matrix, buffer: { ...bufferFrom(matrix.buffer, i * elements), elements } };
    products.multiply(own, { columns, rows: tokens, forms: { f32: source } }, { y, stride: columns });
    plan.launch(kernels.matchMagnitude, { y, x, columns }, { rows: tokens.count });
  }
}
