import type { MambaStates } from '../../lib/gguf/recurrent.js';
import { RocmForgeError } from '../../shared/errors.js';
import { MAMBA_ROWS, MAMBA_STATES } from '../kernels/index.js';
import { type Linear, type Norm, type Residual, type Value, x } from '../model/values.js';
import { Layers } from './family.js';

/** Building blocks of families with Mamba 2 layers. */
export class MambaBlocks extends Layers {
  /** The block's `ffn_norm`, which files of falcon-h1 name without `.weight`. */
  ffnNorm(block: string): Norm {
    const { hiddenSize, rmsNormEpsilon: epsilon } = this.model;
    const name = `${block}.ffn_norm`;
    const weight = this.tensors.vector(this.tensors.has(name) ? name : `${name}.weight`, hiddenSize);
    return { kind: 'norm', weight, epsilon, of: x };
  }

  /** The block's `ssm_out` of its state-space layer. @param layer its number among such layers */
  mamba(block: string, layer: number, of: Residual | Value): Linear {
    const { hiddenSize, rmsNormEpsilon: epsilon } = this.model;
    const { heads, dim, groups, state, taps } = this.recurrent as MambaStates;
    if (!MAMBA_STATES.includes(state) || dim % MAMBA_ROWS !== 0) {
      const built = `${MAMBA_STATES.join(', ')} columns and whole multiples of ${MAMBA_ROWS} rows`;
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `states of ${dim} × ${state} are not supported; supported are ${built}`,
      );
    }
    const inner = heads * dim;
    const channels = inner + 2 * groups * state;
    const each = (name: string) => this.tensors.vectors(`${block}.${name}`, heads, 1);
    const norm = `${block}.ssm_norm.weight`;
    const value: Value = {
      kind: 'mamba',
      ...{ layer, heads, dim, groups, state, taps, epsilon },
      of: this.project([[`${block}.ssm_in`, 2 * inner + 2 * groups * state + heads]], hiddenSize, of),
      convolution: this.tensors.vectors(`${block}.ssm_conv1d.weight`, channels, taps),
      convolutionBias: this.tensors.vector(`${block}.ssm_conv1d.bias`, channels),
      rate: each('ssm_a'),
      bias: this.tensors.vector(`${block}.ssm_dt.bias`, heads),
      skip: each('ssm_d'),
      norm: this.tensors.has(norm) ? this.tensors.vectors(norm, groups, inner / groups) : undefined,
    };
    return this.project([[`${block}.ssm_out`, hiddenSize]], inner, value);
  }
}
