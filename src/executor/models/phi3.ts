import type { Norm } from '../model/values.js';
import { type Family, Layers } from './family.js';

/**
 * phi3: llama's blocks with NeoX-style RoPE, q, k and v in one matrix, and gate and up in one. Longrope: the served context
 * selects one of two tables of frequency factors. Some models have sliding window attention in all layers. Norms of phimoe have biases.
 */
export const phi3: Family = {
  name: 'phi3',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    const norm = (name: string): Norm => {
      const bias = `${name}.bias`;
      return { ...l.rmsNorm(name), ...(tensors.has(bias) && { bias: tensors.vector(bias, model.hiddenSize) }) };
    };
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const attention = l.attention(index, l.qkv(block, norm(`${block}.attn_norm`)), rope, { isSlidingWindow });
        return [l.attentionOutput(block, attention), l.ffn(block, index, norm(`${block}.ffn_norm`))];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), norm('output_norm')),
    };
  },
};
