import { x } from '../model/values.js';
import { type Family, Layers } from './family.js';

/**
 * olmo2: norms after attention and after the MLP, none before; one RMS norm over all heads of q, and one over all of k. In
 * Olmo 3 three of four layers have sliding window attention, with RoPE that YaRN does not scale.
 */
export const olmo2: Family = {
  name: 'olmo2',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    const windowRope = l.windowRope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const options = { qkNorm: l.qkNorm(block, 'row'), isSlidingWindow };
        const attention = l.attention(index, l.qkv(block, x), isSlidingWindow ? windowRope : rope, options);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attentionOutput(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, x)),
        ];
      }),
      logits: l.logits(l.matrix('output', model.vocabularyRows, model.hiddenSize), l.rmsNorm('output_norm')),
    };
  },
};
