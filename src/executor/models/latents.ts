import type { Latents } from '../../lib/gguf/latents.js';
import type { Linear, Norm, Residual, Rope, Value } from '../model/values.js';
import { Layers } from './family.js';

/** Building blocks of families with latent attention. */
export class LatentBlocks extends Layers {
  /** The model's rotation; yarn's magnitude is in the scale of the scores. */
  latentRope(): Rope {
    return { ...this.rope('interleaved'), magnitude: this.model.ropeAttentionFactor ?? 1 };
  }

  /**
   * The block's `attn_output` of latent attention: queries are `attn_q` of the normed residual stream, or `attn_q_b` of what
   * `attn_q_a` makes of it.
   */
  latentAttention(block: string, layer: number, of: Residual | Value, rope: Rope): Linear {
    const { heads, hiddenSize, rmsNormEpsilon: epsilon, traits } = this.model;
    const { queryRank, rank: latent, plain, rotated, valueDim } = traits.latents as Latents;
    const queries = heads * (plain + rotated);
    const query =
      queryRank === undefined
        ? this.project([[`${block}.attn_q`, queries]], hiddenSize, of)
        : this.project([[`${block}.attn_q_b`, queries]], queryRank, this.queryNorm(block, queryRank, of));
    const matrices = (name: string, rows: number, columns: number) =>
      this.tensors.matrices(`${block}.${name}.weight`, heads, rows, columns);
    const attention: Value = {
      kind: 'latent-attention',
      ...{ layer, query, rope, heads, plain, latent, valueDim, epsilon },
      compressed: this.project([[`${block}.attn_kv_a_mqa`, latent + rotated]], hiddenSize, of),
      norm: this.tensors.vector(`${block}.attn_kv_a_norm.weight`, latent),
      keys: matrices('attn_k_b', latent, plain),
      values: matrices('attn_v_b', valueDim, latent),
      scale: traits.attentionScale as number,
    };
    return this.project([[`${block}.attn_output`, hiddenSize]], heads * valueDim, attention);
  }

  private queryNorm(block: string, rank: number, of: Residual | Value): Norm {
    const weight = this.tensors.vector(`${block}.attn_q_a_norm.weight`, rank);
    const epsilon = this.model.rmsNormEpsilon;
    return {
      kind: 'norm',
      weight,
      epsilon,
      of: this.project([[`${block}.attn_q_a`, rank]], this.model.hiddenSize, of),
    };
  }
}
