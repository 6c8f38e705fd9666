import { type Family, Layers } from './family.js';

/**
 * gemma: llama's blocks with a GELU for the gate, NeoX-style RoPE and a head size of its own; the embedding, which is
 * the output projection too, is multiplied by √hidden. Weights of norms already contain Gemma's + 1: llama.cpp's conversion adds
 * it, so norms multiply by them as they are.
 */
export const gemma: Family = {
  name: 'gemma',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      residualBranches: l.eachBlock((block, index) => [
        l.attentionOutput(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope)),
        l.mlp(block, l.rmsNorm(`${block}.ffn_norm`), 'gelu'),
      ]),
      logits: l.logits(l.embedding(), l.rmsNorm('output_norm')),
    };
  },
};
