import type { Family } from './family.js';
import { MambaBlocks } from './mamba.js';

/**
 * nemotron_h: each block is one thing behind its norm: a Mamba 2 layer, attention that is not rotated, or an MLP without a gate.
 * Nemotron Nano v2.
 */
export const nemotronH: Family = {
  name: 'nemotron_h',

  build(model, tensors) {
    const l = new MambaBlocks(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const normed = l.rmsNorm(`${block}.attn_norm`);
        const own = l.amongItsKind(index);
        if (l.isFfn(index)) return [l.ffn(block, index, normed)];
        if (l.isRecurrent(index)) return [l.mamba(block, own, normed)];
        return [l.attentionOutput(block, l.attention(own, l.qkv(block, normed), rope))];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};

/** nemotron_h_moe: nemotron_h with experts for MLPs, and a shared one. Nemotron 3 Nano. */
export const nemotronHMoe: Family = { ...nemotronH, name: 'nemotron_h_moe' };
