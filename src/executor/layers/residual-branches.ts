import * as kernels from '../kernels/index.js';
import type { Matrix } from '../model/matrix.js';
import type { Linear, Norm, Rescaled, StageGraph, Sum, Value } from '../model/values.js';
import { ADDED_NORM, ADDED_PRODUCT } from './fusions.js';
import type { Stream } from './recorded-model.js';
import type { SingleToken } from './single-token.js';
import type { StepSite } from './step-site.js';
import type { ValueRecorder } from './value-recorder.js';

/** Adds branches to the residual stream, in as few launches as the fusions of the device allow. */
export class ResidualBranches {
  constructor(
    private readonly site: StepSite,
    private readonly values: ValueRecorder,
  ) {}

  /** x += value, for each residual branch of a graph in order. */
  record(residualBranches: StageGraph['residualBranches'], stream: Stream): void {
    for (const value of residualBranches) {
      const isSummed = this.change(value, stream);
      this.site.singleToken?.written(isSummed);
      this.values.residualChanged();
    }
  }

  /** @returns whether a step of one row leaves the sums of squares of what x became */
  private change(value: Value, stream: Stream): boolean {
    switch (value.kind) {
      case 'rescaled':
        return this.rescale(value);
      case 'renormed':
        this.values.plainNorm(value.of, stream.x, stream.x, stream.rows);
        return false;
      case 'mixed-streams':
        this.values.layers.streams!.mix(value, (of, y) => this.values.product(of, y, stream));
        return false;
      case 'other-streams':
        this.values.inF32(value.of, this.values.delta, stream);
        this.values.layers.streams!.add(this.values.delta);
        return false;
      default:
        return this.add(value, stream);
    }
  }

  private add(value: Value, stream: Stream): boolean {
    if (value.kind === 'sum') return this.addSum(value, stream);
    if (value.kind === 'experts') return this.values.routed(value, stream.x, stream, true);
    if (value.kind === 'rank-sum') {
      const row = this.site.singleToken?.canSumRanks ? this.site.singleToken : undefined;
      this.values.summed(value, stream.x, stream, true, row);
      return row !== undefined;
    }
    if (this.canAddNorm(value)) return this.addNorm(value, stream, this.site.singleToken as SingleToken);
    if (value.kind === 'linear' && value.biases === undefined && value.weights.length === 1)
      return this.addProduct(value, stream);
    this.values.inF32(value, this.values.delta, stream);
    return this.addDelta(stream);
  }

  /** x *= the number, or the vector's one element */
  private rescale({ factor }: Rescaled): boolean {
    const { device, weights, x, model, tokens } = this.site;
    const number = typeof factor === 'number' ? factor : device.readF32(weights.vector(factor))[0];
    this.values.scale(x, model.hiddenSize, number as number, tokens);
    return false;
  }

  /** x += matrix · of, by the product's own launch where its layout can. */
  private addProduct(value: Linear, stream: Stream): boolean {
    const { products, fusions, singleToken, model } = this.site;
    const stride = model.hiddenSize;
    const [weight] = this.values.matricesOf(value) as [Matrix];
    const input = this.values.activation(value.of, [weight], stream);
    if (!fusions.has(ADDED_PRODUCT) || !products.layoutOf(weight).accumulates(weight)) {
      products.multiply(weight, input, { y: this.values.delta, stride });
      return this.addDelta(stream);
    }
    const row = singleToken?.canSum(weight) ? singleToken : undefined;
    row?.add(weight, products.encoded(input, products.encodingOf(weight)), stream.x);
    products.multiply(weight, input, { y: stream.x, stride, accumulate: true }, row?.multiToken);
    return row !== undefined;
  }

  private canAddNorm(value: Value): value is Norm {
    if (value.kind !== 'norm' || value.isCentered || value.bias !== undefined || value.of.kind === 'residual')
      return false;
    const { singleToken, fusions, model } = this.site;
    return singleToken !== undefined && fusions.has(ADDED_NORM) && ADDED_NORM.when(model.hiddenSize);
  }

  /** x += norm */
  private addNorm({ weight, epsilon: eps, of }: Norm, stream: Stream, { parts }: SingleToken): boolean {
    const { plan, weights, model } = this.site;
    const { x, rows } = stream;
    const hidden = model.hiddenSize;
    const values = { x, y: this.values.source(of, stream), weight: weights.vector(weight), parts, hidden, eps };
    plan.launch(kernels.normAdd, values, { rows: rows.count, parts: kernels.normParts(hidden) });
    return true;
  }

  /** x += both values, each of x as it is. */
  private addSum({ of: [first, second] }: Sum, stream: Stream): boolean {
    const { delta, branch } = this.values;
    this.values.inF32(first, delta, stream);
    this.values.inF32(second, branch, stream);
    this.addDelta(stream);
    return this.addDelta(stream, branch);
  }

  private addDelta({ x, rows }: Stream, y = this.values.delta): boolean {
    this.site.plan.launch(kernels.residualAdd, { x, y, hidden: this.site.model.hiddenSize }, { rows: rows.count });
    return false;
  }
}
