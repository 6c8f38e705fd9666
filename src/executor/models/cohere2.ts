import { type Family, Layers } from './family.js';

/** cohere2: command-r's blocks; three of four layers have sliding window attention, the fourth has full attention without RoPE (NoPE). */
export const cohere2: Family = {
  name: 'cohere2',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('interleaved');
    const unrotated = l.unrotated('interleaved');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const normed = l.layerNorm(`${block}.attn_norm`);
        const attention = l.attention(index, l.qkv(block, normed), isSlidingWindow ? rope : unrotated, {
          isSlidingWindow,
        });
        return [{ kind: 'sum', of: [l.attentionOutput(block, attention), l.mlp(block, normed)] }];
      }),
      logits: l.logits(l.embedding(), l.layerNorm('output_norm')),
      logitsScale: model.traits.logitsScale,
    };
  },
};
