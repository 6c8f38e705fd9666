import { RocmForgeError } from '../errors.js';
import type { GgufTensor } from './tensor-infos.js';

/** Bytes of a block of q8_0: an f16 scale and 32 integers. */
const [Q8_0_BYTES, Q8_0_ELEMENTS] = [34, 32];

/**
 * The rows of a matrix in f32.
 *
 * @param bytes of the tensor
 * @throws RocmForgeError `MODEL_UNSUPPORTED` for other types than f32, f16, bf16 and q8_0
 */
export function rowsOf({ name, type, dims }: GgufTensor, bytes: Uint8Array): readonly Float32Array[] {
  const [columns = 0, rows = 1] = dims;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const elementOf = (): ((index: number) => number) => {
    switch (type) {
      case 'F32':
        return (i) => view.getFloat32(4 * i, true);
      case 'F16':
        return (i) => fromF16(view.getUint16(2 * i, true));
      case 'BF16':
        return (i) => fromBits(view.getUint16(2 * i, true) << 16);
      case 'Q8_0':
        return (i) => {
          const block = Math.floor(i / Q8_0_ELEMENTS) * Q8_0_BYTES;
          return fromF16(view.getUint16(block, true)) * view.getInt8(block + 2 + (i % Q8_0_ELEMENTS));
        };
      default:
        throw new RocmForgeError(
          'MODEL_UNSUPPORTED',
          `tensor ${name} has type ${type}; F32, F16, BF16 and Q8_0 are read`,
        );
    }
  };
  const element = elementOf();
  return Array.from({ length: rows }, (_, row) =>
    Float32Array.from({ length: columns }, (_, column) => element(row * columns + column)),
  );
}

const bits = new DataView(new ArrayBuffer(4));

function fromBits(word: number): number {
  bits.setInt32(0, word);
  return bits.getFloat32(0);
}

function fromF16(half: number): number {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
