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
        if (isFfn(index)) return [l.reluSquaredMlp(block, normed)];
        if (l.isRecurrent(index)) return [l.mamba(block, numberOf(index), normed)];
        return [l.attended(block, l.attention(numberOf(index), l.qkv(block, normed), rope))];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
