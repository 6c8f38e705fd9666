import { x } from '../model/values.js';
import { type Family, Layers } from './family.js';

/**
 * olmo2: norms stand after attention and after the MLP, none before; q is normalized over all its heads together, and k. In
 * Olmo 3 of four layers three see a window, with positions that yarn does not stretch.
 */
export const olmo2: Family = {
  name: 'olmo2',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    const windowRope = l.windowRope('halves');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isWindowed = l.isWindowed(index);
        const options = { headNorms: l.headNorms(block, 'row'), isWindowed };
        const attention = l.attention(index, l.qkv(block, x), isWindowed ? windowRope : rope, options);
        return [
          l.rmsNorm(`${block}.post_attention_norm`, l.attended(block, attention)),
          l.rmsNorm(`${block}.post_ffw_norm`, l.mlp(block, x)),
        ];
      }),
      logits: l.logits(l.matrix('output', model.vocabularyRows, model.hiddenSize), l.rmsNorm('output_norm')),
    };
  },
};
