import { type Family, Layers } from './family.js';

/**
 * llama: pre-norm blocks of grouped-query attention and a SwiGLU MLP, with biases where the file has them. RoPE is
 * interleaved: GGUF files hold q and k weights permuted for that. Llama 3.1 divides RoPE's frequencies (`rope_freqs.weight`). Without
 * `output.weight` the embedding is the output projection. With `expert_count` the MLPs are mixtures of experts: Mixtral. Mistral, SmolLM2, Granite Code, InternLM and Bielik are stored as it.
 */
export const llama: Family = {
  name: 'llama',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('interleaved');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => [
        l.attentionOutput(block, l.attention(index, l.qkv(block, l.rmsNorm(`${block}.attn_norm`)), rope)),
        l.ffn(block, index, l.rmsNorm(`${block}.ffn_norm`)),
      ]),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};
