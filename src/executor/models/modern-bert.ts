import { x } from '../model/values.js';
import { EncoderLayers } from './encoder.js';
import type { Family } from './family.js';

/**
 * modern-bert: Warner et al. (2024). Norms are before attention and MLP, but for the first attention's, which is that of the
 * embeddings; of three layers two see a window on both sides of a position, with a RoPE of their own.
 */
export const modernBert: Family = {
  name: 'modern-bert',

  build(model, tensors) {
    const l = new EncoderLayers(model, tensors);
    const rope = l.rope('neox');
    const windowRope = l.windowRope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: [
        l.renormed('token_embd_norm'),
        ...l.eachBlock((block, index) => {
          const isSlidingWindow = l.isSlidingWindow(index);
          const qkv = l.qkv(block, l.layerNormIf(`${block}.attn_norm`) ?? x);
          const attention = l.sighted(index, qkv, isSlidingWindow ? windowRope : rope, { isSlidingWindow });
          const mlp = l.mlp(block, l.layerNorm(`${block}.ffn_norm`), model.traits.gateActivation);
          return [l.attentionOutput(block, attention), mlp];
        }),
      ],
      states: l.layerNorm('output_norm'),
    };
  },
};
