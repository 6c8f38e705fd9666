import { type Family, Layers } from './family.js';

/** smollm3: llama's blocks; every fourth layer has no RoPE (NoPE). */
export const smollm3: Family = {
  name: 'smollm3',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('interleaved');
    const unrotated = l.unrotated('interleaved');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        return [
          l.attentionOutput(block, l.attention(index, qkv, (index + 1) % 4 === 0 ? unrotated : rope)),
          l.mlp(block, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
