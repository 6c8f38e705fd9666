import { type Family, Layers } from './family.js';

/** mellum: qwen3moe, three of four layers with a window and without yarn. Mellum 2. */
export const mellum: Family = {
  name: 'mellum',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const [rope, windowRope] = [l.rope('halves'), l.windowRope('halves')];
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isWindowed = l.isWindowed(index);
        const options = { headNorms: l.headNorms(block), isWindowed };
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        return [
          l.attended(block, l.attention(index, qkv, isWindowed ? windowRope : rope, options)),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
