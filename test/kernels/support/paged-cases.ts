import fc from 'fast-check';
import { HEAD_DIMS, KV_BLOCK_TOKENS, NO_SINK, TILE_HEAD_DIMS } from '../../../src/executor/kernels/index.js';
import { SlotWord } from '../../../src/executor/model/slot-layout.js';
import { PagedCache } from './paged.js';
import { type Fill, fill, fills, Random, seed } from './values.js';

/** Context lengths around the borders of KV blocks (16) and splits (128). */
const lengthUpTo = (max: number) =>
  fc.oneof(
    fc.constantFrom(
      ...[1, 2, 15, 16, 17, 31, 33, 127, 128, 129, 144, 255, 256, 257, 272, 511, 512, 513].filter((n) => n <= max),
    ),
    fc.integer({ min: 1, max }),
  );

export interface PagedCase {
  readonly type: 'f32' | 'f16';
  readonly headDim: number;
  readonly kvHeads: number;
  /** Query heads a KV head. */
  readonly group: number;
  readonly lengths: readonly number[];
  readonly kind: Fill;
  readonly start: number;
  /** Positions that a row attends to; absent: all up to its own. */
  readonly window?: number;
  readonly softcap?: number;
  /** Sink of the first head, of each head after it one more; absent: none. */
  readonly sink?: number | undefined;
}

/** Sequences in a paged cache, none longer than `longest`. */
export const pagedCases = (longest: number): fc.Arbitrary<PagedCase> =>
  fc.record({
    type: fc.constantFrom('f32' as const, 'f16' as const),
    headDim: fc.constantFrom(...HEAD_DIMS),
    kvHeads: fc.integer({ min: 1, max: 3 }),
    group: fc.integer({ min: 1, max: 4 }),
    lengths: fc.array(lengthUpTo(longest), { minLength: 1, maxLength: 3 }),
    kind: fills('normal', 'zeros', 'ones', 'denormal'),
    start: seed,
  });

/** {@link pagedCases} for attention on matrix units: an f16 cache, head sizes and scores. */
export const tileCases = (longest: number, headDims = TILE_HEAD_DIMS): fc.Arbitrary<PagedCase> =>
  fc
    .tuple(
      pagedCases(longest),
      fc.record({
        headDim: fc.constantFrom(...headDims),
        group: fc.integer({ min: 1, max: 7 }),
        window: fc.constantFrom(0, 0, 1, 5, 16, 100, 128, 200),
        softcap: fc.constantFrom(0, 0, 0.5, 20),
        sink: fc.constantFrom(undefined, undefined, -50, 0, 3, 60),
      }),
    )
    .map(([shape, drawn]) => ({ ...shape, type: 'f16', ...drawn }));

/** Cuts rows into tiles, [first row, rows], of at most `most` consecutive positions of one slot. */
export function tilesOf(rows: readonly Row[], most: number): Int32Array {
  const tiles: number[] = [];
  rows.forEach(({ slot, position }, row) => {
    const previous = rows[row - 1];
    const follows = previous?.slot === slot && previous.position === position - 1;
    if (follows && tiles.at(-1)! < most) tiles[tiles.length - 1]! += 1;
    else tiles.push(row, 1);
  });
  return Int32Array.from(tiles);
}

/** A step's row: the slot it belongs to and its position there. */
export interface Row {
  readonly slot: number;
  readonly position: number;
}

/** The last position of each sequence and one within it, whose future must not be seen. */
export const lastAndInner = (lengths: readonly number[], random: Random): Row[] =>
  lengths.flatMap((length, slot) => [
    { slot, position: length - 1 },
    { slot, position: random.below(length) },
  ]);

/** One chunk of each sequence: some rows up to its end, or up to somewhere before it. */
export const chunks =
  (longest: number) =>
  (lengths: readonly number[], random: Random): Row[] =>
    lengths.flatMap((length, slot) => {
      const end = random.next() < 0.5 ? length : 1 + random.below(length);
      const count = Math.min(end, 1 + random.below(longest));
      return Array.from({ length: count }, (_, i) => ({ slot, position: end - count + i }));
    });

/** Some positions of each sequence, its last among them, each once: rows that write the cache are never two of one position. */
export const someOfEach = (lengths: readonly number[], random: Random): Row[] =>
  lengths.flatMap((length, slot) =>
    [...new Set([length - 1, random.below(length)])].map((position) => ({ slot, position })),
  );

/** A step over a filled cache: what the attention kernels share of their arguments. */
export class PagedStep {
  readonly heads: number;
  readonly cache: PagedCache;
  readonly qkv: Float32Array;
  readonly rows: readonly Row[];
  readonly scale: number;

  constructor(
    readonly shape: PagedCase,
    rowsOf: (lengths: readonly number[], random: Random) => Row[],
  ) {
    const { type, headDim, kvHeads, group, lengths, kind, start } = shape;
    const random = new Random(start);
    this.heads = kvHeads * group;
    this.cache = new PagedCache(lengths, kvHeads, headDim, type, random, (n) => fill(kind, n, random));
    this.rows = rowsOf(lengths, random);
    this.qkv = fill(kind, this.rows.length * (this.heads + 2 * kvHeads) * headDim, random);
    this.scale = Math.fround(1 / Math.sqrt(headDim));
  }

  /** The first position that a row at `position` attends to. */
  begin(position: number): number {
    const { window = 0 } = this.shape;
    return window === 0 ? 0 : Math.max(0, position + 1 - window);
  }

  /** Positions that it attends to, first .. end - 1. */
  range(position: number): readonly [number, number] {
    return [this.begin(position), position + 1];
  }

  get scoring() {
    const { window = 0, softcap = 0 } = this.shape;
    return { window, scale: this.scale, softcap };
  }

  get sinks(): Float32Array {
    const { sink } = this.shape;
    return Float32Array.from({ length: this.heads }, (_, head) => (sink === undefined ? NO_SINK : sink + head));
  }

  /** Sink of a head for the reference. */
  sink(head: number): number | undefined {
    return this.shape.sink === undefined ? undefined : this.sinks[head];
  }

  /** Slots in whose tables the blocks before every row's window lead to block 0, whose numbers are NaN. */
  private get slots(): Int32Array {
    const slots = this.cache.slots.slice();
    for (const slot of this.cache.lengths.keys()) {
      const begins = this.rows.filter((row) => row.slot === slot).map(({ position }) => this.begin(position));
      const first = slot * this.cache.slotWords + SlotWord.blockTable;
      if (begins.length > 0) slots.fill(0, first, first + Math.floor(Math.min(...begins) / KV_BLOCK_TOKENS));
    }
    return slots;
  }

  /** Positions of the rows and of their cache. */
  get placement() {
    return {
      row_position: Int32Array.from(this.rows, ({ position }) => position),
      row_slot: Int32Array.from(this.rows, ({ slot }) => slot),
      slots: this.slots,
      slot_words: this.cache.slotWords,
      heads: this.heads,
      kv_heads: this.cache.kvHeads,
    };
  }

  get dimensions() {
    return { tokens: this.rows.length, blocks: this.cache.blocks, slot_count: this.cache.lengths.length };
  }

  /** The query of a row's head. */
  query(row: number, head: number): Float32Array {
    const start = (row * (this.heads + 2 * this.cache.kvHeads) + head) * this.cache.headDim;
    return this.qkv.subarray(start, start + this.cache.headDim);
  }

  /** The KV head that a query head reads. */
  kvHead(head: number): number {
    return Math.floor(head / this.shape.group);
  }
}
