import { type Family, Layers } from './family.js';

/** Blocks of qwen3 whose heads of q and k are normalized after RoPE has turned them. */
export const normedAfterRope = (name: Family['name'], pairing: 'halves' | 'adjacent'): Family => ({
  name,

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const [rope, unrotated] = [l.rope(pairing), l.unrotated(pairing)];
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const headNorms = l.headNorms(block, 'head', rope);
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        return [
          l.attended(block, l.attention(index, qkv, unrotated, { headNorms })),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
});

/** hunyuan-dense: Hunyuan 0.5B to 7B, Hunyuan-MT. */
export const hunyuanDense = normedAfterRope('hunyuan-dense', 'halves');
