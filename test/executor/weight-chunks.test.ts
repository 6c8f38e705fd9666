import { describe, expect, it } from 'vitest';
import { chunksOf } from '../../src/executor/model/tensor-reader.js';
import type { ColumnPart } from '../../src/executor/model/tensors.js';
import type { GgufTensor } from '../../src/lib/gguf/reader.js';

const ROWS = 7;
const PITCH = 12;
/** A matrix of bytes, each another, as it lies in the file. */
const FILE = Uint8Array.from({ length: ROWS * PITCH }, (_, i) => i);

/** All of the matrix, or of each row some bytes from `first` on. */
const matrix = (first = 0, rowBytes = PITCH): GgufTensor | ColumnPart => {
  const common = {
    name: 'w',
    type: 'I8',
    dims: [rowBytes, ROWS],
    part: 0,
    offset: first,
    bytes: ROWS * rowBytes,
  } as const;
  return rowBytes === PITCH ? common : { ...common, pitch: PITCH };
};

/** Bytes that the chunks copy to the device, as a copy of rows that lie apart does it; and the end of their reads in the file. */
function brought(tensor: GgufTensor | ColumnPart, most: number): { readonly bytes: number[]; readonly end: number } {
  const bytes: number[] = [];
  let end = 0;
  for (const { at, from, bytes: count, span, rows } of chunksOf(tensor, most)) {
    expect(at).toBe(bytes.length);
    const { bytes: rowBytes, pitch } = rows ?? { bytes: count, pitch: count };
    for (let i = 0; i < count; i++) {
      const place = from + Math.floor(i / rowBytes) * pitch + (i % rowBytes);
      expect(place).toBeLessThan(from + span);
      bytes.push(FILE[tensor.offset + place] as number);
    }
    end = Math.max(end, tensor.offset + from + span);
  }
  return { bytes, end };
}

describe('a tensor in chunks', () => {
  // From one row, or a part of it, at once to all of them.
  it.each([1, 5, PITCH, 2 * PITCH, 3 * PITCH + 1, 1000])('of at most %i bytes is the whole tensor', (most) => {
    expect(brought(matrix(), most)).toEqual({ bytes: [...FILE], end: FILE.length });
  });

  it.each([1, PITCH, 2 * PITCH, 3 * PITCH + 1, 1000])(
    'of %i bytes is its columns of each row, where it is a part',
    (most) => {
      for (const [first, rowBytes] of [
        [0, 4],
        [4, 4],
        [8, 4],
        [3, 1],
      ] as const) {
        const own = Array.from({ length: ROWS }, (_, row) => [
          ...FILE.subarray(row * PITCH + first, row * PITCH + first + rowBytes),
        ]);
        // Not a byte behind its last row: the file may end there.
        expect(brought(matrix(first, rowBytes), most)).toEqual({
          bytes: own.flat(),
          end: (ROWS - 1) * PITCH + first + rowBytes,
        });
      }
    },
  );
});
