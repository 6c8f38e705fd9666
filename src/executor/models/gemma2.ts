import { type Family, Layers } from './family.js';

/**
 * gemma2: gemma's blocks with a norm after attention and after the MLP too; every second layer sees a window, and scores and
 * logits are softcapped.
 */
export const gemma2: Family = {
  name: 'gemma2',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const attention = l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope, { isSlidingWindow });
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attentionOutput(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, l.rmsNorm(`${block}.ffn_norm`), 'gelu')),
        ];
      }),
      logits: l.logits(l.embedding(), l.rmsNorm('output_norm')),
      logitsSoftcap: model.traits.logitsSoftcap,
    };
  },
};
