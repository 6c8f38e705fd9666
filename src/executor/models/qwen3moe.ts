import { type Family, Layers } from './family.js';

/** qwen3moe: qwen3 with experts for MLPs; weights of the chosen add up to 1. Qwen3-30B-A3B, Qwen3-Coder. */
export const qwen3moe: Family = {
  name: 'qwen3moe',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    return {
      embedding: l.embedding(),
      additions: l.eachBlock((block, index) => {
        const headNorms = l.headNorms(block);
        return [
          l.attended(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope, { headNorms })),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
