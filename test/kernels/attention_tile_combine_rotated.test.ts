import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stored } from '../../src/executor/device/tolerance.js';
import {
  ATTENTION_SPLIT,
  attentionCombineConvert,
  attentionCombineQuantize,
  attentionTile,
  attentionTileCombineNormed,
  attentionTileCombineRotated,
  attentionTileSplitNormed,
  attentionTileSplitRotated,
  COMBINED_ENCODINGS,
  type CombinedEncoding,
  FUSED_HEAD_DIMS,
  headTiles,
  Q8_BLOCK,
  ropeKvAppend,
} from '../../src/executor/kernels/index.js';
import { attentionTileCombineRotated as reference } from './reference/attention_tile_combine_rotated.js';
import { ropeTables } from './reference/rope.js';
import { expectClose } from './support/compare.js';
import { decode, type FloatArray } from './support/half.js';
import { type PagedCase, PagedStep, tileCases } from './support/paged-cases.js';
import { onEachTileTarget, type Target } from './support/targets.js';
import { fill, Random } from './support/values.js';

/** Attention of the last position of a cache, combined by its last blocks and by a launch. */
async function both(target: Target, shape: PagedCase, form: CombinedEncoding, isNormed: boolean) {
  const { headDim, group } = shape;
  const step = new PagedStep(shape, ([length = 1]) => [{ slot: 0, position: length - 1 }]);
  const { cache, qkv, scoring, sinks, heads, placement, dimensions } = step;
  const max_position = Math.max(...shape.lengths);
  const rotary = headDim / 2;
  const angles = { ...ropeTables(max_position, rotary), rotary, adjacent: 0 };
  const turning = { ...dimensions, max_position, half_rotary: rotary / 2 };
  // One more than there are: of a graph for longer contexts.
  const splits = Math.ceil(max_position / ATTENTION_SPLIT) + 1;
  const random = new Random(shape.start);
  const [query_weight, key_weight] = [fill('normal', headDim, random), fill('normal', headDim, random)];
  const norms = { query_weight, key_weight, eps: Math.fround(1e-5) };
  const own = () => ({
    ...{ ...placement, ...angles, ...scoring, splits, head_tiles: headTiles(group), qkv },
    ...{ k_cache: cache.k.slice(), v_cache: cache.v.slice() },
    parts: new Float32Array(heads * splits * (headDim + 2)).fill(Number.NaN),
  });
  const arrivals = new Int32Array(cache.kvHeads * headTiles(group));
  const together = isNormed
    ? await target.launch(attentionTileCombineNormed(form, headDim), { ...own(), ...norms, sinks, arrivals }, turning)
    : await target.launch(attentionTileCombineRotated(form, headDim), { ...own(), sinks, arrivals }, turning);
  const split = isNormed
    ? await target.launch(attentionTileSplitNormed(headDim), { ...own(), ...norms }, turning)
    : await target.launch(attentionTileSplitRotated(headDim), own(), turning);
  const combined = {
    ...{ parts: split.parts as Float32Array, row_position: placement.row_position },
    ...{ sinks, heads, head_dim: headDim, splits, window: scoring.window },
  };
  const apart =
    form === 'q8'
      ? await target.launch(attentionCombineQuantize, combined, { tokens: 1, blocks: (heads * headDim) / Q8_BLOCK })
      : await target.launch(attentionCombineConvert(form), combined, { tokens: 1 });
  const rotated = await target.launch(ropeKvAppend('f16'), { ...own(), head_dim: headDim, qkv: qkv.slice() }, turning);
  return { step, together, split, apart, rotated };
}

/** The same bits, and counters as they were. */
function expectSame({ together, split, apart }: Awaited<ReturnType<typeof both>>): void {
  expect(together.out).toEqual(apart.out);
  for (const name of ['k_cache', 'v_cache', 'parts']) expect(together[name]).toEqual(split[name]);
  expect(together.arrivals).toEqual(new Int32Array(together.arrivals!.length));
}

onEachTileTarget('attention_tile_combine_rotated', (target) => {
  it('is attention_tile_split_rotated or _normed and what combines its parts in one, to the bit', () =>
    target.check(
      fc.tuple(
        tileCases(target.simulated ? 280 : 600, FUSED_HEAD_DIMS),
        fc.constantFrom(...COMBINED_ENCODINGS),
        fc.boolean(),
      ),
      async ([shape, form, isNormed]) => expectSame(await both(target, shape, form, isNormed)),
      target.simulated ? target.runs : Math.ceil(target.runs / 8),
    ));

  // More splits than are combined at a time: of sixteen heads 8, of seven 16; and two rounds of threads for sixteen heads.
  it.each([
    ['q8', 16, 1153, 128],
    ['f16', 16, 1281, 64],
    ['q8', 7, 2049, 64],
    ['bf16', 1, 300, 128],
  ] as const)(
    'combines many splits and heads likewise: %s, %i heads, %i positions',
    async (form, group, length, headDim) => {
      const shape = { type: 'f16', headDim, kvHeads: 1, group, lengths: [length], kind: 'normal', start: 7 } as const;
      expectSame(await both(target, shape, form, false));
    },
  );

  it('is attention of the whole context', () =>
    target.check(
      tileCases(280, FUSED_HEAD_DIMS),
      async (shape) => {
        const { step, together, rotated } = await both(target, shape, 'f16', false);
        const { cache, heads, scoring, rows } = step;
        const { headDim } = shape;
        cache.k.set(rotated.k_cache as never);
        cache.v.set(rotated.v_cache as never);
        const { tolerance } = attentionTile('f16', headDim);
        const contract = { ...attentionTileCombineRotated('f16', headDim), tolerance: stored('f16', tolerance) };
        const out = decode('f16', together.out as FloatArray);
        for (let head = 0; head < heads; head++) {
          const [from, to] = [head * headDim, (head + 1) * headDim];
          const query = (rotated.qkv as Float32Array).subarray(from, to);
          const range = step.range(rows[0]!.position);
          const expected = reference(query, cache, 0, step.kvHead(head), range, scoring, step.sink(head));
          expectClose(contract, out.subarray(from, to), expected, {});
        }
      },
      target.simulated ? target.runs : Math.ceil(target.runs / 8),
    ));
});
