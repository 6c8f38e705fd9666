import { type Family, Layers } from './family.js';

/** granite: llama's blocks; embedding, attention, what is added to the residual stream, and logits have a scale each. */
export const granite: Family = {
  name: 'granite',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('interleaved');
    const { embeddingScale, logitsDivisor = 1 } = model.traits;
    return {
      embedding: l.embedding(),
      embeddingScale,
      residualBranches: l.eachBlock((block, index) => [
        l.added(l.attentionOutput(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope))),
        l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
      ]),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
      logitsScale: 1 / logitsDivisor,
    };
  },
};
