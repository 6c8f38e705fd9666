import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  attentionPaged,
  attentionSinks,
  attentionRows as contractOf,
  ROWS_HEAD_DIMS,
  ROWS_Q8_HEAD_DIMS,
} from '../../src/executor/kernels/index.js';
import { attentionRows as reference } from './reference/attention_rows.js';
import { quantizeCache } from './reference/kv_q8.js';
import { expectClose } from './support/compare.js';
import { chunks, PagedStep, tileCases, tilesOf } from './support/paged-cases.js';
import { onEachTarget, type Target } from './support/targets.js';

/** Cache types, and heads that each is built for. */
const CACHES = [
  ['f16', ROWS_HEAD_DIMS],
  ['q8_0', ROWS_Q8_HEAD_DIMS],
] as const;
type CacheType = (typeof CACHES)[number][0];

const cacheOf = ({ cache }: PagedStep, type: CacheType) => (type === 'f16' ? cache : quantizeCache(cache));

async function run(target: Target, step: PagedStep, type: CacheType, most: number): Promise<Float32Array> {
  const { qkv, rows, scoring, sinks, placement, dimensions } = step;
  const { k, v, headDim } = cacheOf(step, type);
  const tiles = tilesOf(rows, most);
  const { out } = await target.launch(
    contractOf(type, headDim),
    { ...placement, qkv, k_cache: k, v_cache: v, tiles, sinks, ...scoring },
    { ...dimensions, tokens: rows.length, tiles: tiles.length / 2 },
  );
  return out as Float32Array;
}

/** The same rows, one by one. */
async function rowByRow(target: Target, step: PagedStep, type: CacheType): Promise<Float32Array> {
  const { qkv, rows, scoring, sinks, placement, dimensions, shape } = step;
  const { k, v, headDim } = cacheOf(step, type);
  const { softcap, ...others } = scoring;
  const values = { ...placement, qkv, k_cache: k, v_cache: v, ...others };
  const dims = { ...dimensions, tokens: rows.length };
  const { out } =
    shape.sink === undefined
      ? await target.launch(attentionPaged(type, headDim), { ...values, softcap }, dims)
      : await target.launch(attentionSinks(type, headDim), { ...values, sinks }, dims);
  return out as Float32Array;
}

onEachTarget('attention_rows', (target) => {
  const longest = target.simulated ? 150 : 400;

  it.each(CACHES)('has the bits of attention_paged, whatever the tiles: %s', (type, headDims) =>
    target.check(fc.tuple(tileCases(longest, headDims), fc.integer({ min: 1, max: 40 })), async ([drawn, most]) => {
      const step = new PagedStep({ ...drawn, sink: undefined }, chunks(target.simulated ? 6 : 50));
      const { qkv, rows, heads, scale, scoring } = step;
      const out = await run(target, step, type, most);
      expect(out).toEqual(await rowByRow(target, step, type));
      const expected = reference(qkv, cacheOf(step, type), rows, heads, scale, scoring);
      expectClose(attentionPaged(type, drawn.headDim), out, expected, {});
    }),
  );

  it.each(CACHES)('has the bits of attention_sinks: %s', (type) =>
    target.check(
      fc.tuple(tileCases(longest, [64]), fc.integer({ min: 1, max: 40 }), fc.constantFrom(-50, 0, 3, 60)),
      async ([drawn, most, sink]) => {
        const step = new PagedStep({ ...drawn, softcap: 0, sink }, chunks(target.simulated ? 6 : 50));
        expect(await run(target, step, type, most)).toEqual(await rowByRow(target, step, type));
      },
    ),
  );
});
