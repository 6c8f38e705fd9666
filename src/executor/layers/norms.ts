import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, Rows } from '../kernels/launch-plan.js';
import type { Norm } from '../model/values.js';
import { NORM_FUSIONS } from './fusions.js';
import { type Activation, type ActivationEncoding, asEncoding } from './products.js';
import type { StepSite } from './step-site.js';

/** Norms as inputs of matrices. What several products read is normalized once. */
export class Norms {
  /** Normalized rows in f32 and in the encoding that their matrices take. */
  private readonly rows: Record<'f32' | 'other', DeviceBuffer>;
  /** Bias of LayerNorms without one. */
  private zeros: DeviceBuffer | undefined;
  /** The norm that is in `rows`. */
  private latest: { readonly value: Norm; readonly input: Activation } | undefined;

  /** @param columns of the widest norm */
  constructor(
    private readonly site: StepSite,
    private readonly columns: number,
  ) {
    const { memory, limits, products } = site;
    this.rows = products.roomInBoth(memory, limits.maxStepTokens, columns);
  }

  /** Tells that the residual stream is no longer what the latest norm was taken of. */
  forget(): void {
    this.latest = undefined;
  }

  /**
   * The norm in the form, or in f32, from which others are made.
   *
   * @param source computes the norm's input
   */
  normalized(
    value: Norm,
    form: ActivationEncoding,
    rows: Rows,
    source: () => DeviceBuffer,
    when?: LaunchCondition,
  ): Activation {
    const latest = this.latest?.value === value ? this.latest.input : undefined;
    if (latest?.forms[form] !== undefined || latest?.forms.f32 !== undefined) return latest;
    const input = { columns: value.weight.length, rows, forms: this.record(value, form, rows, source(), when) };
    this.latest = { value, input };
    return input;
  }

  /** y = the norm of x, in f32 */
  plain(
    { weight, bias, epsilon, isCentered }: Norm,
    x: DeviceBuffer,
    y: DeviceBuffer,
    rows: Rows,
    when?: LaunchCondition,
  ): void {
    const { plan, weights } = this.site;
    const values = { x, weight: weights.vector(weight), y, hidden: weight.length, eps: epsilon };
    if (!isCentered) {
      plan.launch(kernels.rmsNorm, values, { rows: rows.count }, when);
      if (bias === undefined) return;
      plan.launch(kernels.biasAdd, { y, bias: weights.vector(bias), out: weight.length }, { rows: rows.count }, when);
      return;
    }
    const added = bias === undefined ? this.unbiased() : weights.vector(bias);
    plan.launch(kernels.layerNorm, { ...values, bias: added }, { rows: rows.count }, when);
  }

  /** The norm of x, in f32, in memory that the next norm takes again. */
  once(value: Norm, x: DeviceBuffer, rows: Rows): DeviceBuffer {
    this.forget();
    this.plain(value, x, this.rows.f32, rows);
    return this.rows.f32;
  }

  private unbiased(): DeviceBuffer {
    this.zeros ??= this.site.memory.upload(new Float32Array(this.columns));
    return this.zeros;
  }

  private record(
    value: Norm,
    form: ActivationEncoding,
    rows: Rows,
    x: DeviceBuffer,
    when?: LaunchCondition,
  ): Activation['forms'] {
    const { plan, weights, products, fusions } = this.site;
    const rule = NORM_FUSIONS.find((candidate) => fusions.has(candidate) && candidate.into.includes(form));
    if (rule === undefined || value.isCentered || value.bias !== undefined) {
      this.plain(value, x, this.rows.f32, rows, when);
      return { f32: this.rows.f32 };
    }
    const y = asEncoding(this.rows.other, form);
    const input = { x, weight: weights.vector(value.weight), columns: value.weight.length, epsilon: value.epsilon };
    rule.launch({ plan, rows, columns: products.columns }, input, form, y, when);
    return { [form]: y };
  }
}
