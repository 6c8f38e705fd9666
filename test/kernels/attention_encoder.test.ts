import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  attentionEncoderRows,
  attentionEncoderTile,
  ENCODER_TILE_HEAD_DIMS,
  ENCODER_TILE_ROWS,
  HEAD_DIMS,
  attentionEncoder as rowWise,
} from '../../src/executor/kernels/index.js';
import { attentionEncoder } from './reference/attention_encoder.js';
import { attentionEncoderRows as rowsReference } from './reference/attention_encoder_rows.js';
import { attentionEncoderTile as tileReference } from './reference/attention_encoder_tile.js';
import { expectClose } from './support/compare.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed } from './support/values.js';

interface Case {
  readonly lengths: readonly number[];
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Undefined where each row is by itself. */
  readonly tileRows?: number | undefined;
}

/** Positions of rows, and the row behind the last one of each row's sequence. */
function placesOf(lengths: readonly number[]) {
  const positions = lengths.flatMap((length) => Array.from({ length }, (_, position) => position));
  let end = 0;
  const ends = lengths.flatMap((length) => {
    end += length;
    return Array<number>(length).fill(end);
  });
  return { row_position: Int32Array.from(positions), row_end: Int32Array.from(ends) };
}

/** Tiles of at most `most` rows, each of one sequence: its first row and how many. */
function tilesOf(lengths: readonly number[], most: number): Int32Array {
  let start = 0;
  return Int32Array.from(
    lengths.flatMap((length) => {
      const first = start;
      start += length;
      return Array.from({ length: Math.ceil(length / most) }, (_, tile) => {
        return [first + tile * most, Math.min(most, length - tile * most)];
      }).flat();
    }),
  );
}

/** attention_encoder, or attention_encoder_tile with tiles of `tileRows`. */
async function run(
  target: Target,
  { lengths, heads, kvHeads, headDim, tileRows }: Case,
  qkv: Float32Array,
  { scale = 0.25, reach = 0, slopes = new Float32Array(heads) } = {},
): Promise<Float32Array> {
  const places = placesOf(lengths);
  const values = { qkv, ...places, slopes, heads, kv_heads: kvHeads, reach, scale };
  const tokens = places.row_position.length;
  if (tileRows === undefined) return (await target.launch(rowWise(headDim), values, { tokens })).out as Float32Array;
  const tiles = tilesOf(lengths, tileRows);
  const dimensions = { tokens, tiles: tiles.length / 2 };
  return (await target.launch(attentionEncoderTile(headDim), { ...values, tiles }, dimensions)).out as Float32Array;
}

const qkvOf = ({ lengths, heads, kvHeads, headDim }: Case, kind: Parameters<typeof fill>[0], random: Random) =>
  fill(kind, lengths.reduce((sum, length) => sum + length, 0) * (heads + 2 * kvHeads) * headDim, random);

function define(
  target: Target,
  headDims: readonly number[],
  tileRows: fc.Arbitrary<number | undefined>,
  reference: typeof attentionEncoder,
): void {
  const most = target.simulated ? 60 : 160;
  const shapes = fc.record({
    lengths: fc.array(fc.integer({ min: 1, max: most }), { minLength: 1, maxLength: 3 }),
    kvHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    headDim: fc.constantFrom(...headDims.filter((dim) => !target.simulated || dim <= 128)),
    tileRows,
  });

  it('attends to the whole sequence of each row, or its window, and lowers scores by their distance', () =>
    target.check(
      fc.tuple(
        shapes,
        fills('normal', 'zeros', 'ones', 'denormal'),
        fc.constantFrom(0, 1, 5, 15, 16, 64, 100),
        fc.constantFrom(0, 0.25, 0.5),
        seed,
      ),
      async ([{ group, ...shape }, kind, reach, slope, start]) => {
        const one = { ...shape, heads: group * shape.kvHeads };
        const scale = Math.fround(1 / Math.sqrt(one.headDim));
        const slopes = Float32Array.from({ length: one.heads }, (_, head) => slope ** (1 + head));
        const qkv = qkvOf(one, kind, new Random(start));
        const expected = reference(qkv, one.lengths, one, scale, { reach, slopes });
        expectClose(rowWise(one.headDim), await run(target, one, qkv, { scale, reach, slopes }), expected, {});
      },
    ));

  it('gives a sequence the same bits alone and among others', async () => {
    const [rows] = fc.sample(tileRows, { numRuns: 1, seed: 1 });
    const one = { lengths: [40, 7, 33], heads: 4, kvHeads: 2, headDim: 32, tileRows: rows };
    const width = (one.heads + 2 * one.kvHeads) * one.headDim;
    const qkv = qkvOf(one, 'normal', new Random(4));
    for (const reach of [0, 6]) {
      const together = await run(target, one, qkv, { reach });
      let first = 0;
      for (const length of one.lengths) {
        const alone = { ...one, lengths: [length] };
        const own = await run(target, alone, qkv.slice(first * width, (first + length) * width), { reach });
        const columns = one.heads * one.headDim;
        expect(own).toEqual(together.slice(first * columns, (first + length) * columns));
        first += length;
      }
    }
  });

  it('survives scores far apart', async () => {
    const [rows] = fc.sample(tileRows, { numRuns: 1, seed: 1 });
    const one = { lengths: [20], heads: 1, kvHeads: 1, headDim: 32, tileRows: rows };
    const qkv = qkvOf(one, 'normal', new Random(5));
    const out = await run(target, one, qkv, { scale: 500 });
    expectClose(rowWise(32), out, reference(qkv, [20], one, 500), {});
  });
}

onEachTarget('attention_encoder', (target) => {
  define(target, HEAD_DIMS, fc.constant(undefined), attentionEncoder);

  it('gives 0 to a row of no sequence', async () => {
    const places = { row_position: Int32Array.of(0), row_end: Int32Array.of(0) };
    const qkv = fill('normal', 3 * 16, new Random(5));
    const values = { qkv, ...places, slopes: Float32Array.of(0), heads: 1, kv_heads: 1, reach: 0, scale: 1 };
    const none = await target.launch(rowWise(16), values, { tokens: 1 });
    expect([...(none.out as Float32Array)]).toEqual(Array(16).fill(0));
  });
});

onEachTarget('attention_encoder_rows', (target) => {
  const shapes = fc.record({
    lengths: fc.array(fc.integer({ min: 1, max: 160 }), { minLength: 1, maxLength: 3 }),
    kvHeads: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    headDim: fc.constantFrom(...ENCODER_TILE_HEAD_DIMS),
    most: fc.integer({ min: 1, max: ENCODER_TILE_ROWS }),
  });

  it('has the bits of attention_encoder, whatever the tiles', () =>
    target.check(
      fc.tuple(
        shapes,
        fills('normal', 'zeros', 'ones', 'denormal'),
        fc.constantFrom(0, 1, 5, 15, 16, 64, 100),
        fc.constantFrom(0, 0.25, 0.5),
        seed,
      ),
      async ([{ group, most, ...shape }, kind, reach, slope, start]) => {
        const one = { ...shape, heads: group * shape.kvHeads };
        const scale = Math.fround(1 / Math.sqrt(one.headDim));
        const slopes = Float32Array.from({ length: one.heads }, (_, head) => slope ** (1 + head));
        const qkv = qkvOf(one, kind, new Random(start));
        const places = placesOf(one.lengths);
        const tiles = tilesOf(one.lengths, most);
        const { out } = await target.launch(
          attentionEncoderRows(one.headDim),
          { qkv, ...places, slopes, heads: one.heads, kv_heads: one.kvHeads, reach, scale, tiles },
          { tokens: places.row_position.length, tiles: tiles.length / 2 },
        );
        expect(out).toEqual(await run(target, one, qkv, { scale, reach, slopes }));
        const expected = rowsReference(qkv, one.lengths, one, scale, { reach, slopes });
        expectClose(attentionEncoderRows(one.headDim), out as Float32Array, expected, {});
      },
    ));
});

onEachTarget('attention_encoder_tile', (target) => {
  define(target, ENCODER_TILE_HEAD_DIMS, fc.integer({ min: 1, max: ENCODER_TILE_ROWS }), tileReference);

  it('stays within its bound with 2,048 keys', async () => {
    const length = 2_048;
    const one = { heads: 1, kvHeads: 1, headDim: 32 };
    const qkv = fill('normal', length * 3 * one.headDim, new Random(8));
    const first = length - 8;
    const values = {
      qkv,
      ...placesOf([length]),
      slopes: Float32Array.of(0),
      heads: 1,
      kv_heads: 1,
      reach: 0,
      scale: 0.25,
    };
    const { out } = await target.launch(
      attentionEncoderTile(one.headDim),
      { ...values, tiles: Int32Array.of(first, 8) },
      { tokens: length, tiles: 1 },
    );
    const expected = tileReference(qkv, [length], one, 0.25, {});
    const cut = (all: Float64Array) => all.subarray(first * one.headDim);
    const { values: wanted, magnitudes } = expected;
    const own = { values: cut(wanted as Float64Array), magnitudes: cut(magnitudes as Float64Array) };
    expectClose(attentionEncoderTile(one.headDim), (out as Float32Array).subarray(first * one.headDim), own, {});
  });

  it('gives a row the same bits in any tile', async () => {
    const one = { lengths: [70, 9], heads: 2, kvHeads: 1, headDim: 96 };
    const qkv = qkvOf(one, 'normal', new Random(6));
    for (const reach of [0, 11]) {
      const whole = await run(target, { ...one, tileRows: ENCODER_TILE_ROWS }, qkv, { reach });
      for (const tileRows of [1, 7, 20]) expect(await run(target, { ...one, tileRows }, qkv, { reach })).toEqual(whole);
    }
  });
});
