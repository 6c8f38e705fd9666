import { readFileSync } from 'node:fs';
import { isBlockType } from '../../src/executor/kernels/index.js';
import { FileByteSource } from '../../src/lib/gguf/byte-source.js';
import { type GgufFile, readGguf } from '../../src/lib/gguf/reader.js';
import { readBlocks } from '../kernels/reference/blocks.js';
import { fromHalf } from '../kernels/support/half.js';

/** A file with its tensors in double precision: F32, F16, or the numbers that blocks stand for. */
export function readFloat64(path: string): Pick<GgufFile, 'metadata' | 'tensors'> & {
  /** Elements of a tensor, read once. */
  readonly tensor: (name: string) => Float64Array;
} {
  const { metadata, tensors } = readGguf(new FileByteSource(path));
  const bytes = readFileSync(path);
  const weights = new Map<string, Float64Array>();
  const tensor = (name: string): Float64Array => {
    let values = weights.get(name);
    if (values === undefined) {
      const { offset, bytes: length, type } = tensors.get(name)!;
      const data = new Uint8Array(bytes.subarray(offset, offset + length));
      const block = type.toLowerCase();
      if (type === 'F32') values = Float64Array.from(new Float32Array(data.buffer));
      else if (type === 'F16') values = Float64Array.from(new Uint16Array(data.buffer), (half) => fromHalf(half));
      else if (isBlockType(block)) {
        const { products, minimums } = readBlocks(block, data);
        values = products.map((product, i) => product - minimums[i]!);
      } else throw new Error(`${name} is ${type}`);
      weights.set(name, values);
    }
    return values;
  };
  return { metadata, tensors, tensor };
}
