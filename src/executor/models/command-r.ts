import { type Family, Layers } from './family.js';

/**
 * command-r: attention and MLP take the same LayerNorm of the residual stream and are added to it together; the embedding is the
 * output projection, and logits are multiplied. Command R+ normalizes each head of q and k, too.
 */
export const commandR: Family = {
  name: 'command-r',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('interleaved');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const normed = l.layerNorm(`${block}.attn_norm`);
        const qkNorm = tensors.has(`${block}.attn_q_norm.weight`) ? l.qkNorm(block, 'own-head') : undefined;
        const attention = l.attention(index, l.qkv(block, normed), rope, { qkNorm });
        return [{ kind: 'sum', of: [l.attentionOutput(block, attention), l.mlp(block, normed)] }];
      }),
      logits: l.logits(l.embedding(), l.layerNorm('output_norm')),
      logitsScale: model.traits.logitsScale,
    };
  },
};
