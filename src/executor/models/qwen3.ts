import { type Family, Layers } from './family.js';

/** qwen3: qwen2's blocks without biases; each head of q and k has an RMS norm, applied before RoPE. */
export const qwen3: Family = {
  name: 'qwen3',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const qkNorm = l.qkNorm(block);
        return [
          l.attentionOutput(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope, { qkNorm })),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
