import { EncoderLayers } from './encoder.js';
import type { Family } from './family.js';

/**
 * gemma-embedding: gemma3's blocks, whose positions see the whole input, or a window on both sides. The two products behind the
 * pooling, if the file has them, are of each position instead: of a mean they are the same. EmbeddingGemma.
 */
export const gemmaEmbedding: Family = {
  name: 'gemma-embedding',

  build(model, tensors) {
    const l = new EncoderLayers(model, tensors);
    const rope = l.rope('neox');
    const windowRope = l.windowRope('neox');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        const options = { qkNorm: l.qkNorm(block), isSlidingWindow };
        const attention = l.sighted(index, qkv, isSlidingWindow ? windowRope : rope, options);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attentionOutput(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, l.rmsNorm(`${block}.ffn_norm`), 'gelu')),
        ];
      }),
      states: l.dense(['dense_2', 'dense_3'], l.rmsNorm('output_norm')),
    };
  },
};
