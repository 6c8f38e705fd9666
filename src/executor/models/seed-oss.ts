import { type Family, Layers } from './family.js';

/** seed_oss: qwen2's blocks; `post_attention_norm` is the norm before the MLP. */
export const seedOss: Family = {
  name: 'seed_oss',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => [
        l.attentionOutput(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope)),
        l.mlp(block, l.rmsNorm(`${block}.post_attention_norm`)),
      ]),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
