import type { Family } from './family.js';
import { MambaBlocks } from './mamba.js';

/** falcon-h1: each block has attention and a Mamba 2 layer in parallel, after a shared norm, then an MLP. Falcon-H1. */
export const falconH1: Family = {
  name: 'falcon-h1',

  build(model, tensors) {
    const l = new MambaBlocks(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const normed = l.rmsNorm(`${block}.attn_norm`);
        const attentionOutput = l.attentionOutput(block, l.attention(index, l.qkv(block, normed), rope));
        return [{ kind: 'sum', of: [attentionOutput, l.mamba(block, index, normed)] }, l.mlp(block, l.ffnNorm(block))];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
