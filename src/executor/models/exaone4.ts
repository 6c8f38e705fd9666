import { x } from '../model/values.js';
import { type Family, Layers } from './family.js';

/**
 * exaone4: norms after attention and after the MLP, none before; each head of q and k has an RMS norm. Where the model has a window,
 * three of four layers have sliding window attention, and the fourth has full attention without RoPE (NoPE). EXAONE 4.0.
 */
export const exaone4: Family = {
  name: 'exaone4',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    const global = model.traits.window === undefined ? rope : l.unrotated('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const options = { qkNorm: l.qkNorm(block), isSlidingWindow };
        const attention = l.attention(index, l.qkv(block, x), isSlidingWindow ? rope : global, options);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attentionOutput(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, x)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
