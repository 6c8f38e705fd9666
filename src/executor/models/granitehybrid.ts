import type { Family } from './family.js';
import { MambaBlocks } from './mamba.js';

/**
 * granitehybrid: granite's blocks, most of which have a Mamba 2 layer in place of attention; attention is not rotated, unless a
 * file says otherwise. An MLP in each block, or experts and a shared one. Granite 4.0 H.
 */
export const granitehybrid: Family = {
  name: 'granitehybrid',

  build(model, tensors) {
    const l = new MambaBlocks(model, tensors);
    const rope = l.rope('interleaved');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      residualBranches: l.eachBlock((block, index) => {
        const normed = l.rmsNorm(`${block}.attn_norm`);
        const own = l.amongItsKind(index);
        const attention = () => l.attentionOutput(block, l.attention(own, l.qkv(block, normed), rope));
        return [
          l.added(l.isRecurrent(index) ? l.mamba(block, own, normed) : attention()),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
      logitsScale: 1 / (model.traits.logitsDivisor ?? 1),
    };
  },
};
