import { type Family, Layers } from './family.js';

/** cohere2: command-r's blocks; of four layers three see a window, and the fourth leaves positions out. */
export const cohere2: Family = {
  name: 'cohere2',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('adjacent');
    const unrotated = l.unrotated('adjacent');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isWindowed = l.isWindowed(index);
        const normed = l.layerNorm(`${block}.attn_norm`);
        const attention = l.attention(index, l.qkv(block, normed), isWindowed ? rope : unrotated, { isWindowed });
        return [{ kind: 'sum', of: [l.attended(block, attention), l.mlp(block, normed)] }];
      }),
      logits: l.logits(l.embedding(), l.layerNorm('output_norm')),
      logitsScale: model.traits.logitsScale,
    };
  },
};
