import type { Value } from '../model/values.js';
import { DeltaNetBlocks } from './delta-net.js';
import type { Family } from './family.js';

/**
 * qwen35: three of four layers are gated delta nets, the fourth is gated attention with partial RoPE.
 * `post_attention_norm` is the norm before the FFN. Qwen3.5, Qwen3.6.
 */
export const qwen35: Family = {
  name: 'qwen35',

  build(model, tensors, predicts) {
    const l = new DeltaNetBlocks(model, tensors);
    const rope = l.rope('neox');
    const adds = (block: string, index: number): readonly Value[] => {
      const normed = l.rmsNorm(`${block}.attn_norm`);
      const attention = () => {
        const options = { qkNorm: l.qkNorm(block), isGated: true } as const;
        return l.attentionOutput(block, l.attention(l.amongItsKind(index), l.gatedQkv(block, normed), rope, options));
      };
      return [
        l.isRecurrent(index) ? l.deltaNet(block, index, normed) : attention(),
        l.ffn(block, index, l.rmsNorm(`${block}.post_attention_norm`)),
      ];
    };
    return {
      embedding: l.embedding(),
      residualBranches: l.eachBlock(adds),
      prediction: predicts ? l.prediction(adds) : undefined,
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
    };
  },
};

/** qwen3next: qwen35moe with value heads grouped by their key heads. Qwen3-Next-80B-A3B, Qwen3-Coder-Next. */
export const qwen3next: Family = { ...qwen35, name: 'qwen3next' };

/** qwen35moe: qwen35 with experts for MLPs, and one more that every row is sent to. */
export const qwen35moe: Family = { ...qwen35, name: 'qwen35moe' };
