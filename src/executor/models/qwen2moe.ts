import { type Family, Layers } from './family.js';

/**
 * qwen2moe: qwen2 with experts for MLPs, their weights as the softmax over all gives them, and one expert more for every row,
 * times the sigmoid of a gate of its own. Qwen1.5-MoE and Qwen2-57B-A14B.
 */
export const qwen2moe: Family = {
  name: 'qwen2moe',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    return {
      embedding: l.embedding(),
      additions: l.eachBlock((block, index) => [
        l.attended(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope)),
        l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
      ]),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
