import { type Family, Layers } from './family.js';

/**
 * phi3: llama's blocks with RoPE over halves, q, k and v in one matrix, and gate and up. Long contexts divide RoPE's
 * frequencies by one table or another, by what is served. Some are trained with a window, in all layers.
 */
export const phi3: Family = {
  name: 'phi3',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    return {
      embedding: l.embedding(),
      additions: l.eachBlock((block, index) => {
        const isWindowed = l.isWindowed(index);
        const attention = l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope, { isWindowed });
        return [l.attended(block, attention), l.mlp(block, l.rmsNorm(`${block}.ffn_norm`))];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
