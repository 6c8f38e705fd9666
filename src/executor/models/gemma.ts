import { type Family, Layers } from './family.js';

/**
 * gemma: llama's blocks with a GELU for the gate, RoPE over halves and heads of a size of their own; the embedding, which is
 * the output projection too, is multiplied by √hidden. Files hold norms' weights with the 1 added that the model adds.
 */
export const gemma: Family = {
  name: 'gemma',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      residualBranches: l.eachBlock((block, index) => [
        l.attended(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope)),
        l.mlp(block, l.rmsNorm(`${block}.ffn_norm`), 'gelu'),
      ]),
      logits: l.logits(l.embedding(), l.rmsNorm('output_norm')),
    };
  },
};
