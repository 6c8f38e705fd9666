import type { Architecture } from './architecture.js';

/**
 * llama: pre-norm blocks of grouped-query attention and a SwiGLU MLP. RoPE turns adjacent pairs (GGUF files hold q and k
 * weights permuted for that) and `rope_freqs.weight`, where there is one, divides its frequencies (Llama 3.1). Without
 * `output.weight` the embedding is the output projection.
 */
export const llama: Architecture = {
  name: 'llama',

  record(forward, weights, rope) {
    const { hiddenSize, ffnSize, heads, kvHeads, headDim, layers, vocabularyRows } = forward.model;
    forward.embed(weights.table('token_embd.weight', vocabularyRows, hiddenSize));
    for (let layer = 0; layer < layers; layer++) {
      const matrix = (name: string, rows: number, columns: number) =>
        weights.matrix(`blk.${layer}.${name}.weight`, rows, columns);
      const norm = (name: string) => weights.vector(`blk.${layer}.${name}.weight`, hiddenSize);

      const attention = {
        norm: norm('attn_norm'),
        q: matrix('attn_q', heads * headDim, hiddenSize),
        k: matrix('attn_k', kvHeads * headDim, hiddenSize),
        v: matrix('attn_v', kvHeads * headDim, hiddenSize),
        output: matrix('attn_output', hiddenSize, heads * headDim),
      };
      forward.attention(layer, attention, { ...rope, pairing: 'adjacent' });
      forward.mlp({
        norm: norm('ffn_norm'),
        gate: matrix('ffn_gate', ffnSize, hiddenSize),
        up: matrix('ffn_up', ffnSize, hiddenSize),
        down: matrix('ffn_down', hiddenSize, ffnSize),
      });
    }
    const output = weights.has('output.weight') ? 'output.weight' : 'token_embd.weight';
    forward.sampleLogits(
      weights.vector('output_norm.weight', hiddenSize),
      weights.matrix(output, vocabularyRows, hiddenSize),
    );
  },
};
