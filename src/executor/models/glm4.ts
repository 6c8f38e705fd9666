import { type Family, Layers } from './family.js';

/**
 * glm4: llama's blocks with a norm after attention and after the MLP too; partial RoPE, NeoX-style in the text models of GLM-4.1V
 * and GLM-OCR and interleaved in all others.
 */
export const glm4: Family = {
  name: 'glm4',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope(model.traits.hasNeoxRope ? 'neox' : 'interleaved');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const attention = l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attentionOutput(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, l.rmsNorm(`${block}.ffn_norm`))),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
