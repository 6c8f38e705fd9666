import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  ATTENTION_SPLIT,
  attentionTileRows,
  attentionTileSplit,
  attentionTile as contractOf,
  headTiles,
  TILE_Q8_HEAD_DIMS,
} from '../../src/executor/kernels/index.js';
import { attentionTile } from './reference/attention_tile.js';
import { quantizeCache } from './reference/kv_q8.js';
import { expectClose } from './support/compare.js';
import { encode } from './support/half.js';
import { chunks, PagedStep, tileCases, tilesOf } from './support/paged-cases.js';
import { runSplits } from './support/split-runs.js';
import { onEachTileTarget, type Target } from './support/targets.js';

async function run(target: Target, step: PagedStep, most: number): Promise<Float32Array> {
  const { cache, qkv, rows, scoring, sinks, placement, dimensions } = step;
  const tiles = tilesOf(rows, most);
  const { out } = await target.launch(
    contractOf('f16', cache.headDim),
    { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, tiles, sinks, ...scoring },
    { ...dimensions, tiles: tiles.length / 2 },
  );
  return out as Float32Array;
}

onEachTileTarget('attention_tile', (target) => {
  it('is causal attention of prompt chunks, with the bits that each row has by itself', () =>
    target.check(
      fc.tuple(tileCases(target.simulated ? 280 : 300), fc.integer({ min: 1, max: 64 })),
      async ([shape, most]) => {
        const step = new PagedStep(shape, chunks(target.simulated ? 9 : 20));
        const { cache, rows, heads, scoring } = step;
        const tileRows = Math.min(most, attentionTileRows(shape.group, shape.headDim));
        const out = await run(target, step, tileRows);
        const contract = contractOf('f16', shape.headDim);
        rows.forEach(({ slot, position }, row) => {
          for (let head = 0; head < heads; head++) {
            const place = (row * heads + head) * shape.headDim;
            const query = step.query(row, head);
            const expected = attentionTile(
              query,
              cache,
              slot,
              step.kvHead(head),
              step.range(position),
              scoring,
              step.sink(head),
            );
            expectClose(contract, out.subarray(place, place + shape.headDim), expected, {});
          }
        });
        expect(await runSplits(target, step)).toEqual(out);
      },
      target.simulated ? target.runs : Math.ceil(target.runs / 2),
    ));

  it.each([
    ['within a chunk and past its end', 230, 40],
    ['from the first position on', 0, 20],
    ['at the border of the ninth chunk', 1_018, 12],
  ])('gives a row the same bits in any tile, %s', async (_, first, count) => {
    const length = first + count;
    const shape = {
      ...({ type: 'f16', headDim: 64, kvHeads: 1, group: 3, kind: 'normal', start: 1 } as const),
      lengths: [length],
    };
    const step = new PagedStep(shape, () =>
      Array.from({ length: count }, (_, i) => ({ slot: 0, position: first + i })),
    );
    const whole = await run(target, step, attentionTileRows(3, 64));
    for (const most of [1, 7, 16]) expect(await run(target, step, most)).toEqual(whole);
    expect(await runSplits(target, step)).toEqual(whole);
  });

  it('reads no block before the windows of its rows', async () => {
    const shape = {
      ...({ type: 'f16', headDim: 128, kvHeads: 2, group: 2, kind: 'normal', start: 9, window: 40 } as const),
      lengths: [700],
    };
    const step = new PagedStep(shape, () => Array.from({ length: 25 }, (_, i) => ({ slot: 0, position: 675 + i })));
    const out = await run(target, step, 25);
    expect(out.every(Number.isFinite)).toBe(true);
    expect(await runSplits(target, step)).toEqual(out);
  });

  it('reads a q8_0 cache as the f16 cache that it stands for, to the bit, in both forms', () =>
    target.check(
      tileCases(target.simulated ? 280 : 300, TILE_Q8_HEAD_DIMS),
      async (shape) => {
        const { headDim, kvHeads } = shape;
        const step = new PagedStep(shape, chunks(target.simulated ? 9 : 20));
        const { cache, qkv, rows, heads, scoring, sinks, placement, dimensions } = step;
        const bytes = quantizeCache(cache);
        // Positions past a sequence's length stay NaN in both.
        const halves = { k: cache.k.slice(), v: cache.v.slice() };
        for (const name of ['k', 'v'] as const) {
          for (const slot of cache.lengths.keys()) {
            for (let head = 0; head < kvHeads; head++) {
              bytes.context(name, slot, head).forEach((vector, position) => {
                halves[name].set(encode('f16', vector), cache.offset(slot, position, head));
              });
            }
          }
        }
        const tiles = tilesOf(rows, attentionTileRows(shape.group, shape.headDim));
        const splits = Math.ceil(Math.max(...cache.lengths) / ATTENTION_SPLIT);
        const parts = new Float32Array(rows.length * heads * splits * (headDim + 2));
        const run = async (type: 'f16' | 'q8_0') => {
          const caches = type === 'f16' ? halves : bytes;
          const values = { ...placement, ...scoring, qkv, k_cache: caches.k, v_cache: caches.v };
          const whole = await target.launch(
            contractOf(type, headDim),
            { ...values, sinks, tiles },
            { ...dimensions, tiles: tiles.length / 2 },
          );
          const split = await target.launch(
            attentionTileSplit(type, headDim),
            { ...values, parts, head_tiles: headTiles(shape.group), splits },
            dimensions,
          );
          return { out: whole.out, parts: split.parts };
        };
        expect(await run('q8_0')).toEqual(await run('f16'));
      },
      target.simulated ? 10 : Math.ceil(target.runs / 2),
    ));
});
