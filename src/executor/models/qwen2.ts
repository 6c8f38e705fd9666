import { type Family, Layers } from './family.js';

/** qwen2: llama's blocks with a bias on q, k and v and RoPE over halves. Small models tie the output projection. */
export const qwen2: Family = {
  name: 'qwen2',

  build(model, tensors) {
    const { hiddenSize, ffnSize, heads, kvHeads, headDim, vocabularyRows } = model;
    const [q, kv] = [heads * headDim, kvHeads * headDim];
    const l = new Layers(model, tensors);
    const rope = l.rope('halves');
    return {
      embedding: l.matrix('token_embd', vocabularyRows, hiddenSize),
      additions: l.eachBlock((block, blk) => {
        const of = (name: string, rows: number, columns = hiddenSize) => l.matrix(`${blk}.${name}`, rows, columns);
        const biases = [l.bias(`${blk}.attn_q`, q), l.bias(`${blk}.attn_k`, kv), l.bias(`${blk}.attn_v`, kv)];
        const normed = l.rmsNorm(`${blk}.attn_norm`);
        const qkv = l.linear([of('attn_q', q), of('attn_k', kv), of('attn_v', kv)], normed, biases);
        const gateUp = l.linear([of('ffn_gate', ffnSize), of('ffn_up', ffnSize)], l.rmsNorm(`${blk}.ffn_norm`));
        return [
          l.linear([of('attn_output', hiddenSize, q)], l.attention(block, qkv, rope)),
          l.linear([of('ffn_down', hiddenSize, ffnSize)], l.swiglu(gateUp)),
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
