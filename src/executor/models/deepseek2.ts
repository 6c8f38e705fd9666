import type { Family } from './family.js';
import { LatentBlocks } from './latents.js';

/**
 * deepseek2: latent attention in its absorbed form, and experts behind a few dense blocks, with shared ones for every row. Files
 * say how weights are made, and of groups of experts. DeepSeek-V2-Lite, Moonlight, GLM-4.7-Flash; DeepSeek-V3, R1 and Kimi K2.
 */
export const deepseek2: Family = {
  name: 'deepseek2',

  build(model, tensors) {
    const l = new LatentBlocks(model, tensors);
    const rope = l.latentRope();
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => [
        l.latentAttention(block, index, l.rmsNorm(`${block}.attn_norm`), rope),
        l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
      ]),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
