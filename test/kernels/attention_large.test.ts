import { expect, it } from 'vitest';
import { attentionLarge as contractOf, headTiles, LARGE_HEAD_DIMS } from '../../src/executor/kernels/index.js';
import { attentionLarge } from './reference/attention_large.js';
import { expectClose } from './support/compare.js';
import { lastAndInner, type PagedCase, PagedStep, tileCases } from './support/paged-cases.js';
import { runSplits } from './support/split-runs.js';
import { onEachTileTarget, type Target } from './support/targets.js';

async function runWhole(target: Target, step: PagedStep): Promise<Float32Array> {
  const { cache, qkv, scoring, sinks, placement, dimensions } = step;
  const { out } = await target.launch(
    contractOf(cache.headDim),
    {
      ...{ ...placement, ...scoring, qkv, k_cache: cache.k, v_cache: cache.v },
      ...{ sinks, head_tiles: headTiles(step.shape.group) },
    },
    dimensions,
  );
  return out as Float32Array;
}

onEachTileTarget('attention_large', (target) => {
  async function compare(shape: PagedCase): Promise<void> {
    const step = new PagedStep(shape, lastAndInner);
    const { cache, rows, heads, scoring } = step;
    const out = await runWhole(target, step);
    rows.forEach(({ slot, position }, row) => {
      for (let head = 0; head < heads; head++) {
        const place = (row * heads + head) * shape.headDim;
        const expected = attentionLarge(
          step.query(row, head),
          cache,
          slot,
          step.kvHead(head),
          step.range(position),
          scoring,
          step.sink(head),
        );
        expectClose(contractOf(shape.headDim), out.subarray(place, place + shape.headDim), expected, {});
      }
    });
    expect(await runSplits(target, step)).toEqual(out);
  }

  it('is causal attention of rows, with the bits of their splits', () =>
    target.check(tileCases(target.simulated ? 200 : 300, LARGE_HEAD_DIMS), compare));

  // DeepSeek V3 has 128 of them.
  it.each([16, 33])('takes %d query heads of a KV head', (group) =>
    compare({ type: 'f16', headDim: 576, kvHeads: 1, group, lengths: [300], kind: 'normal', start: 5 }),
  );
});
