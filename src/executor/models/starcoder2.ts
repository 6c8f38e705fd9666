import { type Family, Layers } from './family.js';

/**
 * starcoder2: blocks of LayerNorms, NeoX-style RoPE, and biases where the file has them. The MLP of StarCoder 2 and CodeShell has
 * no gate and GELU, that of Nemotron and Minitron max(x, 0)²; those of Orion and StableLM have a gate. CodeShell's embedding is its
 * output matrix. StableLM 2 12B has LayerNorms of heads, and its MLP takes the norm that attention takes.
 */
export const starcoder2: Family = {
  name: 'starcoder2',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    const varies = model.traits.variesNorms;
    return {
      embedding: l.embeddingOr('output'),
      residualBranches: l.eachBlock((block, index) => {
        const normed = l.layerNorm(`${block}.attn_norm`);
        const has = (name: string) => tensors.has(`${block}.${name}.weight`);
        const qkNorm = varies && has('attn_q_norm') ? l.qkNorm(block, 'own-head') : undefined;
        const attentionOutput = l.attentionOutput(block, l.attention(index, l.qkv(block, normed), rope, { qkNorm }));
        if (varies && !has('ffn_norm')) return [{ kind: 'sum', of: [attentionOutput, l.mlp(block, normed)] }];
        return [attentionOutput, l.mlp(block, l.layerNorm(`${block}.ffn_norm`))];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.layerNorm('output_norm')),
    };
  },
};
