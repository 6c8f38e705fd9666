type Row = Float64Array;

/** A block's Mamba 2 layer, in double precision. */
export interface MambaWeights {
  readonly heads: number;
  readonly dim: number;
  readonly state: number;
  readonly groups: number;
  readonly epsilon: number;
  /** The product of a row with the block's matrix of that name. */
  readonly product: (name: string, x: Row) => Row;
  /** The block's tensor of that name. */
  readonly tensor: (name: string) => Row;
  readonly has: (name: string) => boolean;
}

const silu = (value: number): number => value / (1 + Math.exp(-value));

/** Dao & Gu (2024), one position after the other: S = e^(dt A) S + dt x bᵀ, and S c + D x, gated and then normed by group. */
export function float64Mamba(of: MambaWeights, xs: readonly Row[]): Row[] {
  const { heads, dim, state, groups, epsilon, product, tensor, has } = of;
  const inner = heads * dim;
  const channels = inner + 2 * groups * state;
  const projected = xs.map((x) => product('ssm_in', x));
  const [kernel, bias] = [tensor('ssm_conv1d.weight'), tensor('ssm_conv1d.bias')];
  const taps = kernel.length / channels;
  const states = Array.from({ length: heads }, () => new Float64Array(dim * state));
  return projected.map((row, position) => {
    const convolved = Float64Array.from({ length: channels }, (_, channel) => {
      let sum = bias[channel]!;
      for (let back = 0; back < taps && back <= position; back++)
        sum += projected[position - back]![inner + channel]! * kernel[channel * taps + taps - 1 - back]!;
      return silu(sum);
    });
    const y = new Float64Array(inner);
    for (const [head, own] of states.entries()) {
      const group = Math.floor(head / (heads / groups));
      const b = convolved.slice(inner + group * state, inner + (group + 1) * state);
      const c = convolved.slice(inner + (groups + group) * state, inner + (groups + group + 1) * state);
      const dt = Math.log(1 + Math.exp(row[inner + channels + head]! + tensor('ssm_dt.bias')[head]!));
      const decay = Math.exp(dt * tensor('ssm_a')[head]!);
      for (let i = 0; i < dim; i++) {
        const x = convolved[head * dim + i]!;
        let read = 0;
        for (let j = 0; j < state; j++) {
          own[i * state + j] = own[i * state + j]! * decay + dt * x * b[j]!;
          read += own[i * state + j]! * c[j]!;
        }
        y[head * dim + i] = (read + tensor('ssm_d')[head]! * x) * silu(row[head * dim + i]!);
      }
    }
    if (!has('ssm_norm.weight')) return product('ssm_out', y);
    const width = inner / groups;
    const weight = tensor('ssm_norm.weight');
    for (let group = 0; group < groups; group++) {
      const own = y.subarray(group * width, (group + 1) * width);
      const scale = 1 / Math.sqrt(own.reduce((sum, value) => sum + value * value, 0) / width + epsilon);
      own.forEach((value, i) => {
        own[i] = value * scale * weight[group * width + i]!;
      });
    }
    return product('ssm_out', y);
  });
}
