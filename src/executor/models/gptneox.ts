import { type Family, Layers } from './family.js';

/** gptneox: as starcoder2; where the residual is parallel, both LayerNorms are of the same stream. Pythia and GPT-NeoX. */
export const gptneox: Family = {
  name: 'gptneox',

  build(model, tensors) {
    const l = new Layers(model, tensors);
    const rope = l.rope('neox');
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock((block, index) => {
        const attention = l.attention(index, l.qkv(block, l.layerNorm(`${block}.attn_norm`)), rope);
        const [attentionOutput, mlp] = [
          l.attentionOutput(block, attention),
          l.mlp(block, l.layerNorm(`${block}.ffn_norm`)),
        ];
        return model.traits.isParallel ? [{ kind: 'sum', of: [attentionOutput, mlp] }] : [attentionOutput, mlp];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.layerNorm('output_norm')),
    };
  },
};
