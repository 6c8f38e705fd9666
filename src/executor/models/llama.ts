import { type Family, Layers } from './family.js';

/**
 * llama: pre-norm blocks of grouped-query attention and a SwiGLU MLP. RoPE turns adjacent pairs (GGUF files hold q and k
 * weights permuted for that); Llama 3.1 divides its frequencies. Without `output.weight` the embedding is the output
 * projection.
 */
export const llama: Family = {
  name: 'llama',

  build(model, tensors) {
    const { hiddenSize, ffnSize, heads, kvHeads, headDim, vocabularyRows } = model;
    const [q, kv] = [heads * headDim, kvHeads * headDim];
    const l = new Layers(model, tensors);
    const rope = l.rope('adjacent');
    return {
      embedding: l.matrix('token_embd', vocabularyRows, hiddenSize),
      additions: l.eachBlock((block, blk) => {
        const of = (name: string, rows: number, columns = hiddenSize) => l.matrix(`${blk}.${name}`, rows, columns);
        const qkv = l.linear([of('attn_q', q), of('attn_k', kv), of('attn_v', kv)], l.rmsNorm(`${blk}.attn_norm`));
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
