import type { Residual, Value } from '../model/values.js';
import type { Family } from './family.js';
import { MambaBlocks } from './mamba.js';
import { reluSquaredMlp } from './ungated.js';

/** Building blocks of Nemotron-H. */
class NemotronBlocks extends MambaBlocks {
  /** The block's MLP, or experts that are such MLPs, and one that every row is sent to. */
  reluSquaredFfn(block: string, of: Residual | Value): Value {
    const { experts, hiddenSize, ffnSize } = this.model;
    if (experts === undefined) return reluSquaredMlp(this, block, of, { hiddenSize, ffnSize });
    const routed = this.experts(block, experts, of, 'relu-squared');
    return {
      kind: 'sum',
      of: [routed, reluSquaredMlp(this, block, of, { hiddenSize, ffnSize: experts.sharedFfnSize, suffix: '_shexp' })],
    };
  }
}

/**
 * nemotron_h and nemotron_h_moe: each block is one thing behind its norm: a Mamba 2 layer, attention that is not rotated, or an MLP
 * without a gate, or experts that are such MLPs. Nemotron Nano v2, Nemotron 3 Nano.
 */
export const nemotronH: Family = {
  name: 'nemotron_h',

  build(model, tensors) {
    const l = new NemotronBlocks(model, tensors);
    const isFfn = (index: number) => model.traits.ffnLayers?.[index] === true;
    const numberOf = (index: number) => {
      const before = Array.from({ length: index }, (_, i) => i).filter((i) => !isFfn(i));
      return before.filter((i) => l.isRecurrent(i) === l.isRecurrent(index)).length;
    };
    const rope = l.rope('halves');
    return {
      embedding: l.embedding(),
      additions: l.eachBlock((block, index) => {
        const normed = l.rmsNorm(`${block}.attn_norm`);
        if (isFfn(index)) return [l.reluSquaredFfn(block, normed)];
        if (l.isRecurrent(index)) return [l.mamba(block, numberOf(index), normed)];
        return [l.attended(block, l.attention(numberOf(index), l.qkv(block, normed), rope))];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};

/** nemotron_h_moe: nemotron_h with experts for MLPs. */
export const nemotronHMoe: Family = { ...nemotronH, name: 'nemotron_h_moe' };
