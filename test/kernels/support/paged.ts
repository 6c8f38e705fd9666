import { KV_BLOCK_TOKENS } from '../../../src/executor/kernels/index.js';
import { SlotWord } from '../../../src/executor/model/slot-layout.js';
import { decode, encode, type FloatArray } from './half.js';
import type { Random } from './values.js';

/**
 * A paged KV cache with one sequence a slot. Each slot's blocks are scattered over the pool; block 0 and what lies past
 * a sequence's length hold NaN, so that reading them shows.
 */
export class PagedCache {
  readonly slots: Int32Array;
  readonly slotWords: number;
  readonly blocks: number;
  readonly k: FloatArray;
  readonly v: FloatArray;
  private readonly contexts = new Map<string, Float32Array[]>();

  constructor(
    readonly lengths: readonly number[],
    readonly kvHeads: number,
    readonly headDim: number,
    readonly type: 'f32' | 'f16',
    random: Random,
    content: (elements: number) => Float32Array,
  ) {
    const tables = lengths.map((length) => Math.ceil(length / KV_BLOCK_TOKENS));
    const used = tables.reduce((sum, count) => sum + count, 0);
    this.blocks = used + 1;
    // One entry more than any sequence needs: reading it leads to block 0.
    this.slotWords = SlotWord.blockTable + Math.max(...tables) + 1;
    this.slots = new Int32Array(lengths.length * this.slotWords);
    const order = random.permutation(used);
    for (const [slot, count] of tables.entries()) {
      for (let i = 0; i < count; i++) this.slots[slot * this.slotWords + SlotWord.blockTable + i] = order.pop()! + 1;
    }
    const elements = this.blocks * kvHeads * KV_BLOCK_TOKENS * headDim;
    const k = new Float32Array(elements).fill(Number.NaN);
    const v = k.slice();
    for (const [slot, length] of lengths.entries()) {
      for (let token = 0; token < length; token++) {
        for (let head = 0; head < kvHeads; head++) {
          k.set(content(headDim), this.offset(slot, token, head));
          v.set(content(headDim), this.offset(slot, token, head));
        }
      }
    }
    this.k = encode(type, k);
    this.v = encode(type, v);
  }

  /** The first element of a token's head vector. */
  offset(slot: number, token: number, kvHead: number): number {
    const at = slot * this.slotWords + SlotWord.blockTable + Math.floor(token / KV_BLOCK_TOKENS);
    const block = this.slots[at]!;
    return ((block * this.kvHeads + kvHead) * KV_BLOCK_TOKENS + (token % KV_BLOCK_TOKENS)) * this.headDim;
  }

  /** The vectors of one head of a sequence, a token each. */
  context(which: 'k' | 'v', slot: number, kvHead: number): Float32Array[] {
    const name = `${which} ${slot} ${kvHead}`;
    let vectors = this.contexts.get(name);
    if (vectors === undefined) {
      vectors = Array.from({ length: this.lengths[slot]! }, (_, token) => {
        const start = this.offset(slot, token, kvHead);
        return decode(this.type, this[which].subarray(start, start + this.headDim));
      });
      this.contexts.set(name, vectors);
    }
    return vectors;
  }
}
