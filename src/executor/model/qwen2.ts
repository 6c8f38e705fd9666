import type { Architecture } from './architecture.js';

/**
 * qwen2: llama's blocks with a bias on q, k and v and RoPE over halves, (j, j + rotary / 2). Small models tie the output
 * projection to the embedding and have no `output.weight`.
 */
export const qwen2: Architecture = {
  name: 'qwen2',

  record(forward, weights, rope) {
    const { hiddenSize, ffnSize, heads, kvHeads, headDim, layers, vocabularyRows } = forward.model;
    const [qSize, kvSize] = [heads * headDim, kvHeads * headDim];
    forward.embed(weights.table('token_embd.weight', vocabularyRows, hiddenSize));
    for (let layer = 0; layer < layers; layer++) {
      const matrix = (name: string, rows: number, columns: number) =>
        weights.matrix(`blk.${layer}.${name}.weight`, rows, columns);
      const norm = (name: string) => weights.vector(`blk.${layer}.${name}.weight`, hiddenSize);
      const bias = (name: string, length: number) => weights.vector(`blk.${layer}.${name}.bias`, length);

      const attention = {
        norm: norm('attn_norm'),
        q: matrix('attn_q', qSize, hiddenSize),
        k: matrix('attn_k', kvSize, hiddenSize),
        v: matrix('attn_v', kvSize, hiddenSize),
        output: matrix('attn_output', hiddenSize, qSize),
        biases: [bias('attn_q', qSize), bias('attn_k', kvSize), bias('attn_v', kvSize)] as const,
      };
      forward.attention(layer, attention, { ...rope, pairing: 'halves' });
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
