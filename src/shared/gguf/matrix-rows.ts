import { RocmForgeError } from '../errors.js';
import { BLOCK_FORMATS, fromF16 } from './block-elements.js';
import type { GgufTensor } from './tensor-infos.js';

/**
 * The rows of a matrix in f32.
 *
 * @param bytes of the tensor
 * @throws RocmForgeError `MODEL_UNSUPPORTED` for types that it does not read
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
      default:
        return blockElement(name, type, view);
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

/** @throws RocmForgeError `MODEL_UNSUPPORTED` */
function blockElement(name: string, type: GgufTensor['type'], view: DataView): (index: number) => number {
  const format = BLOCK_FORMATS[type];
  if (format === undefined) {
    const types = ['F32', 'F16', 'BF16', ...Object.keys(BLOCK_FORMATS)].join(', ');
    throw new RocmForgeError('MODEL_UNSUPPORTED', `tensor ${name} has type ${type}; supported here: ${types}`);
  }
  const { elements, bytes, element } = format;
  return (index) => element(view, Math.floor(index / elements) * bytes, index % elements);
}
