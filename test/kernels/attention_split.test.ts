import { expect, it } from 'vitest';
import {
  ATTENTION_SPLIT,
  attentionCombine,
  attentionPaged,
  attentionSplit as contractOf,
} from '../../src/executor/kernels/index.js';
import { attentionSplit } from './reference/attention_split.js';
import { lastAndInner, PagedStep, pagedCases } from './support/paged-cases.js';
import { expectParts, UNTOUCHED } from './support/split-parts.js';
import { onEachTarget } from './support/targets.js';

onEachTarget('attention_split', (target) => {
  it('attends to one split, writes none that a row does not reach, and combines to the bits of attention_paged', () =>
    target.check(pagedCases(target.simulated ? 300 : 600), async (shape) => {
      const { type, headDim } = shape;
      const step = new PagedStep(shape, lastAndInner);
      const { cache, qkv, rows, scale, heads, placement, dimensions } = step;
      const splits = Math.ceil(Math.max(...shape.lengths) / ATTENTION_SPLIT) + 1;
      const width = headDim + 2;
      const contract = contractOf(type, headDim);
      const caches = { qkv, k_cache: cache.k, v_cache: cache.v, scale };
      const { parts } = await target.launch(
        contract,
        {
          ...placement,
          ...caches,
          parts: new Float32Array(rows.length * heads * splits * width).fill(UNTOUCHED),
          splits,
        },
        dimensions,
      );
      expectParts(contract, parts as Float32Array, step, splits, (row, head, range) =>
        attentionSplit(step.query(row, head), cache, rows[row]!.slot, step.kvHead(head), range, scale),
      );

      const combined = await target.launch(
        attentionCombine,
        {
          ...{ parts: parts as Float32Array, row_position: placement.row_position },
          ...{ sinks: step.sinks, heads, head_dim: headDim, splits, window: 0 },
        },
        dimensions,
      );
      const whole = await target.launch(
        attentionPaged(type, headDim),
        { ...placement, ...caches, window: 0, softcap: 0 },
        dimensions,
      );
      expect(combined.out).toEqual(whole.out);
    }));
});
