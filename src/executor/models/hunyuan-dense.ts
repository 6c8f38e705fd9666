import { type Family, Layers } from './family.js';

/** qwen3's blocks, with the norms of q and k applied after RoPE. */
export const normedAfterRope = (name: Family['name'], pairing: 'neox' | 'interleaved'): Family => ({
  name,

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const [rope, unrotated] = [l.rope(pairing), l.unrotated(pairing)];
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const qkNorm = l.qkNorm(block, 'head', rope);
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        return [
          l.attentionOutput(block, l.attention(index, qkv, unrotated, { qkNorm })),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
});

/** hunyuan-dense: Hunyuan 0.5B to 7B, Hunyuan-MT. */
export const hunyuanDense = normedAfterRope('hunyuan-dense', 'neox');
