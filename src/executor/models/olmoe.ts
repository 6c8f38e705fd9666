import { type Family, Layers } from './family.js';

/** olmoe: qwen2moe's blocks without biases or a shared expert; q is normalized over all its heads together, and k. OLMoE. */
export const olmoe: Family = {
  name: 'olmoe',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const qkNorm = l.qkNorm(block, 'row');
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        return [
          l.attentionOutput(block, l.attention(index, qkv, rope, { qkNorm })),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
