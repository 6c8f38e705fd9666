import { type Family, Layers } from './family.js';

/** mellum: qwen3moe, three of four layers with a window and without yarn. Mellum 2. */
export const mellum: Family = {
  name: 'mellum',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const [rope, windowRope] = [l.rope('neox'), l.windowRope('neox')];
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const isSlidingWindow = l.isSlidingWindow(index);
        const options = { qkNorm: l.qkNorm(block), isSlidingWindow };
        const qkv = l.qkv(block, l.rmsNorm(`${block}.attn_norm`));
        return [
          l.attentionOutput(block, l.attention(index, qkv, isSlidingWindow ? windowRope : rope, options)),
          l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
