import { x } from '../model/values.js';
import { type Family, Layers } from './family.js';

/**
 * exaone4: norms stand after attention and after the MLP, none before; each head of q and k is normalized. With a window three of
 * four layers have it, and the fourth leaves positions out. EXAONE 4.0.
 */
export const exaone4: Family = {
  name: 'exaone4',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    const global = model.traits.window === undefined ? rope : l.unrotated('halves');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isWindowed = l.isWindowed(index);
        const options = { headNorms: l.headNorms(block), isWindowed };
        const attention = l.attention(index, l.qkv(block, x), isWindowed ? rope : global, options);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attended(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, x)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
