import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  attentionPaged,
  attentionSinks,
  attentionRows as contractOf,
  ROWS_HEAD_DIMS,
} from '../../src/executor/kernels/index.js';
import { attentionRows as reference } from './reference/attention_rows.js';
import { expectClose } from './support/compare.js';
import { chunks, PagedStep, tileCases, tilesOf } from './support/paged-cases.js';
import { onEachTarget, type Target } from './support/targets.js';

async function run(target: Target, step: PagedStep, most: number): Promise<Float32Array> {
  const { cache, qkv, rows, scoring, sinks, placement, dimensions } = step;
  const tiles = tilesOf(rows, most);
  const { out } = await target.launch(
    contractOf(cache.headDim),
    { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, tiles, sinks, ...scoring },
    { ...dimensions, tokens: rows.length, tiles: tiles.length / 2 },
  );
  return out as Float32Array;
}

/** The same rows, one by one. */
async function rowByRow(target: Target, step: PagedStep): Promise<Float32Array> {
  const { cache, qkv, rows, scoring, sinks, placement, dimensions, shape } = step;
  const { softcap, ...others } = scoring;
  const values = { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, ...others };
  const dims = { ...dimensions, tokens: rows.length };
  const { out } =
    shape.sink === undefined
      ? await target.launch(attentionPaged('f16', cache.headDim), { ...values, softcap }, dims)
      : await target.launch(attentionSinks('f16', cache.headDim), { ...values, sinks }, dims);
  return out as Float32Array;
}

onEachTarget('attention_rows', (target) => {
  const longest = target.simulated ? 150 : 400;

  it('has the bits of attention_paged, whatever the tiles', () =>
    target.check(
      fc.tuple(tileCases(longest, ROWS_HEAD_DIMS), fc.integer({ min: 1, max: 40 })),
      async ([drawn, most]) => {
        const step = new PagedStep({ ...drawn, sink: undefined }, chunks(target.simulated ? 6 : 50));
        const { qkv, cache, rows, heads, scale, scoring } = step;
        const out = await run(target, step, most);
        expect(out).toEqual(await rowByRow(target, step));
        const expected = reference(qkv, cache, rows, heads, scale, scoring);
        expectClose(attentionPaged('f16', drawn.headDim), out, expected, {});
      },
    ));

  it('has the bits of attention_sinks', () =>
    target.check(
      fc.tuple(tileCases(longest, [64]), fc.integer({ min: 1, max: 40 }), fc.constantFrom(-50, 0, 3, 60)),
      async ([drawn, most, sink]) => {
        const step = new PagedStep({ ...drawn, softcap: 0, sink }, chunks(target.simulated ? 6 : 50));
        expect(await run(target, step, most)).toEqual(await rowByRow(target, step));
      },
    ));
});
