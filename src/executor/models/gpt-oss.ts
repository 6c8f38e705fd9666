import { type Family, Layers } from './family.js';

/**
 * gpt-oss: pre-norm blocks (`post_attention_norm` is the norm before the FFN here), a bias on every matrix, every other layer
 * windowed from the first on, a sink a head; the experts' weights are the softmax over the chosen, their gates clamped.
 */
export const gptOss: Family = {
  name: 'gpt-oss',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        const sinks = tensors.vector(`${block}.attn_sinks.weight`, model.heads);
        return [
          l.attended(block, l.attention(index, qkv, rope, { isWindowed: l.isWindowed(index), sinks })),
          l.ffn(block, index, l.rmsNorm(`${block}.post_attention_norm`), 'clamped'),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
