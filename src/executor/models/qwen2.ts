import { type Family, Layers } from './family.js';

/** qwen2: llama's blocks, with a bias on q, k and v where the file has one, and NeoX-style RoPE. */
export const qwen2: Family = {
  name: 'qwen2',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => [
        l.attentionOutput(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope)),
        l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
      ]),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
