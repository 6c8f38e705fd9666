import type { TensorTypeName } from './tensor-types.js';

/** A type of weights in blocks: a few integers share a scale. */
export interface BlockFormat {
  readonly elements: number;
  readonly bytes: number;
  /** Element `i` of the block that begins at byte `at`. */
  readonly element: (view: DataView, at: number, i: number) => number;
}

const half = (view: DataView, at: number): number => fromF16(view.getUint16(at, true));

/** Nibble `i` of the bytes from `at` on, of which `count` each have the low nibbles first and then the high ones. */
function nibble(view: DataView, at: number, i: number, count: number): number {
  const group = Math.floor(i / (2 * count));
  const place = i % (2 * count);
  const byte = view.getUint8(at + group * count + (place % count));
  return place < count ? byte & 15 : byte >> 4;
}

const bitAt = (view: DataView, at: number, i: number): number => (view.getUint8(at + (i >> 3)) >> (i & 7)) & 1;

/** Scale and minimum, six bits each, of 32 elements of Q4_K and Q5_K: twelve bytes from `at` on. */
function sixBits(view: DataView, at: number, group: number): readonly [scale: number, minimum: number] {
  const byte = (i: number): number => view.getUint8(at + i);
  if (group < 4) return [byte(group) & 63, byte(group + 4) & 63];
  const both = byte(group + 4);
  return [(both & 15) | ((byte(group - 4) >> 6) << 4), (both >> 4) | ((byte(group) >> 6) << 4)];
}

function scaled(view: DataView, at: number, i: number, quant: number): number {
  const [scale, minimum] = sixBits(view, at + 4, i >> 5);
  return half(view, at) * scale * quant - half(view, at + 2) * minimum;
}

/** Formats that files of a small mixture have, as ggml-quants.c of llama.cpp reads them. */
export const BLOCK_FORMATS: Readonly<Partial<Record<TensorTypeName, BlockFormat>>> = {
  Q8_0: { elements: 32, bytes: 34, element: (view, at, i) => half(view, at) * view.getInt8(at + 2 + i) },
  Q4_0: { elements: 32, bytes: 18, element: (view, at, i) => half(view, at) * (nibble(view, at + 2, i, 16) - 8) },
  Q4_1: {
    elements: 32,
    bytes: 20,
    element: (view, at, i) => half(view, at) * nibble(view, at + 4, i, 16) + half(view, at + 2),
  },
  Q5_0: {
    elements: 32,
    bytes: 22,
    element: (view, at, i) => half(view, at) * (nibble(view, at + 6, i, 16) + 16 * bitAt(view, at + 2, i) - 16),
  },
  Q5_1: {
    elements: 32,
    bytes: 24,
    element: (view, at, i) =>
      half(view, at) * (nibble(view, at + 8, i, 16) + 16 * bitAt(view, at + 4, i)) + half(view, at + 2),
  },
  Q4_K: { elements: 256, bytes: 144, element: (view, at, i) => scaled(view, at, i, nibble(view, at + 16, i, 32)) },
  Q5_K: {
    elements: 256,
    bytes: 176,
    element: (view, at, i) => {
      const high = (view.getUint8(at + 16 + (i & 31)) >> (i >> 5)) & 1;
      return scaled(view, at, i, nibble(view, at + 48, i, 32) + 16 * high);
    },
  },
  Q6_K: {
    elements: 256,
    bytes: 210,
    element: (view, at, i) => {
      const [part, quarter] = [i >> 7, (i >> 5) & 3];
      const low = view.getUint8(at + 64 * part + (i & 63));
      const high = (view.getUint8(at + 128 + 32 * part + (i & 31)) >> (2 * quarter)) & 3;
      const quant = (quarter < 2 ? low & 15 : low >> 4) + 16 * high - 32;
      return half(view, at + 208) * view.getInt8(at + 192 + (i >> 4)) * quant;
    },
  },
};

/** The value of an f16. */
export function fromF16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
