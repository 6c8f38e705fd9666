import { type Family, Layers } from './family.js';

/**
 * gpt-oss: pre-norm blocks (here `post_attention_norm` is the norm before the FFN), a bias on every matrix, sliding window attention
 * in every other layer, layer 0 included, and an attention sink per head. Experts are weighted by a softmax over the chosen ones and
 * have a clamped SwiGLU.
 */
export const gptOss: Family = {
  name: 'gpt-oss',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        const sinks = tensors.vector(`${block}.attn_sinks.weight`, model.heads);
        return [
          l.attentionOutput(block, l.attention(index, qkv, rope, { isSlidingWindow: l.isSlidingWindow(index), sinks })),
          l.ffn(block, index, l.rmsNorm(`${block}.post_attention_norm`), 'clamped'),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
