import { type Family, Layers } from './family.js';
import { reluSquaredMlp } from './ungated.js';

/** arcee: llama's blocks with an MLP that has no gate. AFM-4.5B. */
export const arcee: Family = {
  name: 'arcee',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('adjacent');
    return {
      embedding: l.embedding(),
      additions: l.eachBlock((block, index) => [
        l.attended(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope)),
        reluSquaredMlp(l, block, l.rmsNorm(`${block}.ffn_norm`), model),
      ]),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
