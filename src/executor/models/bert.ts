import { x } from '../model/values.js';
import { EncoderLayers } from './encoder.js';
import type { Family } from './family.js';

/**
 * bert: Devlin et al. (2019). Tokens, kinds of segments and learned positions are added and normalized; the norms of a block are of
 * the stream behind attention and MLP. nomic-bert: with RoPE and a gate of SiLU in place of positions. jina-bert-v2: with ALiBi and
 * a gate of GELU.
 */
const postNormed = (name: 'bert' | 'nomic-bert' | 'jina-bert-v2'): Family => ({
  name,

  build(model, tensors) {
    const l = new EncoderLayers(model, tensors);
    const rope = l.rope('neox');
    const activation = name === 'jina-bert-v2' ? 'gelu' : 'silu';
    return {
      embedding: l.embedding(),
      segments: l.segments(),
      ...(name === 'bert' && { positions: l.positions() }),
      residualBranches: [
        l.renormed('token_embd_norm'),
        ...l.eachBlock((block, index) => [
          l.attentionOutput(block, l.sighted(index, l.qkv(block, x), rope)),
          l.renormed(`${block}.attn_output_norm`),
          l.mlp(block, x, activation),
          l.renormed(`${block}.layer_output_norm`),
        ]),
      ],
      states: x,
    };
  },
});

export const bert = postNormed('bert');
export const nomicBert = postNormed('nomic-bert');
export const jinaBertV2 = postNormed('jina-bert-v2');
