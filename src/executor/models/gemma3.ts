import { type Family, Layers } from './family.js';

/**
 * gemma3: gemma2's blocks without softcaps; each head of q and k is normalized before RoPE turns it, and of six layers five
 * see a window, with a RoPE of their own.
 */
export const gemma3: Family = {
  name: 'gemma3',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    const windowRope = l.windowRope('halves');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      residualBranches: l.eachBlock((block, index) => {
        const isWindowed = l.isWindowed(index);
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        const options = { headNorms: l.headNorms(block), isWindowed };
        const attention = l.attention(index, qkv, isWindowed ? windowRope : rope, options);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attended(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, l.rmsNorm(`${block}.ffn_norm`), 'gelu')),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
      logitsSoftcap: model.traits.logitsSoftcap,
    };
  },
};
