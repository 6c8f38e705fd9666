import type { Family } from './family.js';
import { ShortConvBlocks } from './short-conv.js';

/**
 * lfm2: most blocks are gated convolutions of a few rows, the others attention whose heads of q and k are normalized. The last
 * norm is named after the embedding. LFM2, LFM2.5.
 */
export const lfm2: Family = {
  name: 'lfm2',

  build(model, tensors) {
    const l = new ShortConvBlocks(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const normed = l.rmsNorm(`${block}.attn_norm`);
        const attention = () => {
          const options = { qkNorm: l.qkNorm(block) };
          return l.attentionOutput(block, l.attention(l.amongItsKind(index), l.qkv(block, normed), rope, options));
        };
        return [
          l.isRecurrent(index) ? l.shortConv(block, index, normed) : attention(),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('token_embd_norm')),
    };
  },
};

/** lfm2moe: lfm2 with experts for MLPs but in the first blocks. LFM2-8B-A1B. */
export const lfm2moe: Family = { ...lfm2, name: 'lfm2moe' };
