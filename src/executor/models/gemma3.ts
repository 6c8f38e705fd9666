import { type Family, Layers } from './family.js';

/**
 * gemma3: gemma2's blocks without softcaps; each head of q and k has an RMS norm, applied before RoPE. Five of six layers have
 * sliding window attention, with a RoPE base of their own. As in gemma, weights of norms in the file already contain the + 1.
 */
export const gemma3: Family = {
  name: 'gemma3',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    const windowRope = l.windowRope('neox');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        const options = { qkNorm: l.qkNorm(block), isSlidingWindow };
        const attention = l.attention(index, qkv, isSlidingWindow ? windowRope : rope, options);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attentionOutput(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, l.rmsNorm(`${block}.ffn_norm`), 'gelu')),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
      logitsSoftcap: model.traits.logitsSoftcap,
    };
  },
};
