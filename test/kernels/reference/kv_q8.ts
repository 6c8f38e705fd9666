import { cacheElements, KV_BLOCK_TOKENS } from '../../../src/executor/kernels/index.js';
import { fromHalf, toHalf } from '../support/half.js';
import type { PagedCache } from '../support/paged.js';

const GROUP = 32;

/** int8 quants of 32 elements each and their f16 scale: largest / 127, rounded to f16; quants of what was rounded. */
export function quantizeKv(vector: Float32Array): { readonly quants: Int8Array; readonly scales: Uint16Array } {
  const quants = new Int8Array(vector.length);
  const scales = new Uint16Array(vector.length / GROUP);
  for (let group = 0; group < scales.length; group++) {
    const values = vector.subarray(group * GROUP, (group + 1) * GROUP);
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    scales[group] = toHalf(Math.fround(largest / 127));
    const step = fromHalf(scales[group]!);
    const inverse = step > 0 && Number.isFinite(step) ? Math.fround(1 / step) : 0;
    values.forEach((value, i) => {
      const exact = Math.fround(value * inverse);
      const floor = Math.floor(exact);
      const rest = exact - floor;
      const rounded = rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
      quants[group * GROUP + i] = Math.max(-127, Math.min(127, rounded));
    });
  }
  return { quants, scales };
}

/** Numbers that quants and scales stand for. */
const dequantizeKv = ({ quants, scales }: ReturnType<typeof quantizeKv>): Float32Array =>
  Float32Array.from(quants, (quant, i) => quant * fromHalf(scales[Math.floor(i / GROUP)]!));

/** A cache in q8_0: its bytes, and what they stand for. */
export interface QuantizedCache extends Pick<PagedCache, 'headDim' | 'kvHeads' | 'context'> {
  readonly k: Uint8Array;
  readonly v: Uint8Array;
}

/** The cache in q8_0; scales of what lies past a sequence's length are NaN. */
export function quantizeCache(cache: PagedCache): QuantizedCache {
  const { blocks, kvHeads, headDim, lengths } = cache;
  const k = new Uint8Array(cacheElements('q8_0', blocks, kvHeads, headDim)).fill(0xff);
  const bytes = { k, v: k.slice() };
  const contexts = new Map<string, Float32Array[]>();
  for (const which of ['k', 'v'] as const) {
    for (const slot of lengths.keys()) {
      for (let head = 0; head < kvHeads; head++) {
        const vectors = cache.context(which, slot, head).map(quantizeKv);
        for (const [position, vector] of vectors.entries())
          storeKv(bytes[which], cache, [slot, position, head], vector);
        contexts.set(`${which} ${slot} ${head}`, vectors.map(dequantizeKv));
      }
    }
  }
  return { ...bytes, kvHeads, headDim, context: (which, slot, head) => contexts.get(`${which} ${slot} ${head}`)! };
}

/** Writes a vector where the layout of `forge/kv_q8.h` has token `position` of a slot. */
export function storeKv(
  bytes: Uint8Array,
  cache: PagedCache,
  [slot, position, kvHead]: readonly [number, number, number],
  vector: ReturnType<typeof quantizeKv>,
): void {
  const { headDim } = cache;
  const token = position % KV_BLOCK_TOKENS;
  const block = (cache.offset(slot, position, kvHead) / headDim - token) / KV_BLOCK_TOKENS;
  const start = block * 17 * headDim;
  bytes.set(new Uint8Array(vector.quants.buffer), start + token * headDim);
  bytes.set(new Uint8Array(vector.scales.buffer), start + KV_BLOCK_TOKENS * headDim + (token * headDim) / 16);
}
