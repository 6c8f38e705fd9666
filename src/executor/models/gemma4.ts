import { type Family, Layers } from './family.js';
import { Gemma4Layer, layerInputs } from './gemma4-layers.js';

/**
 * gemma4: gemma3's blocks with heads of v normalized too. Layers that see everything have larger heads, of which a part is
 * rotated, and may take their keys for values; the last layers of small models share keys and values of earlier ones, and get an
 * input of their own for each token. The large model has experts beside its MLPs.
 */
export const gemma4: Family = {
  name: 'gemma4',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    const windowRope = l.windowRope('neox');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      layerInputs: layerInputs(model, tensors),
      residualBranches: l.eachBlock((block, index) => {
        const layer = new Gemma4Layer(model, tensors, index);
        return [
          l.rmsNorm(
            `${block}.post_attention_norm`,
            layer.attentionOutput4(l.isSlidingWindow(index) ? windowRope : rope),
          ),
          l.rmsNorm(`${block}.post_ffw_norm`, layer.ffn4()),
          ...layer.ending(),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
      logitsSoftcap: model.traits.logitsSoftcap,
    };
  },
};
