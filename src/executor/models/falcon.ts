import { type Family, Layers } from './family.js';

/**
 * falcon: attention and MLP take the same LayerNorm of the residual stream and are added to it together; in Falcon 40B attention
 * has a LayerNorm of its own, `attn_norm_2`. With biases it is phi2: Phi 1, 1.5 and 2.
 */
export const falcon: Family = {
  name: 'falcon',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const normed = l.layerNorm(`${block}.attn_norm`);
        const own = `${block}.attn_norm_2`;
        const attentionInput = tensors.has(`${own}.weight`) ? l.layerNorm(own) : normed;
        const attention = l.attention(index, l.qkv(block, attentionInput), rope);
        return [{ kind: 'sum', of: [l.attentionOutput(block, attention), l.mlp(block, normed)] }];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.layerNorm('output_norm')),
    };
  },
};
