import type { Value } from '../model/values.js';
import type { Family } from './family.js';
import { PredictingLayers } from './prediction.js';

/**
 * glm4moe: pre-norm blocks (`post_attention_norm` is the norm before the FFN here), a part of each head rotated, experts behind
 * a few dense blocks and one expert more for every row. Weights are sigmoids; `exp_probs_b` decides the choice alone. Some
 * files norm q's and k's heads. GLM-4.5 and GLM-4.6, GLM-4.5-Air.
 */
export const glm4moe: Family = {
  name: 'glm4moe',

  build(model, tensors, predicts) {
    const l = new PredictingLayers(model, tensors);
    const rope = l.rope('neox');
    const adds = (block: string, index: number): readonly Value[] => {
      const qkNorm = tensors.has(`${block}.attn_q_norm.weight`) ? l.qkNorm(block) : undefined;
      const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
      return [
        l.attentionOutput(block, l.attention(index, qkv, rope, qkNorm && { qkNorm })),
        l.ffn(block, index, l.rmsNorm(`${block}.post_attention_norm`)),
      ];
    };
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock(adds),
      prediction: predicts ? l.prediction(adds) : undefined,
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
