import { blockFormat, type PackedType, Q8_BLOCK, Q8_BLOCK_BYTES } from '../../../src/executor/kernels/index.js';
import { packRow, quantizeQ8 } from '../reference/quantize_q8.js';
import { repackRow } from '../reference/repack.js';

/** Rows of activations as a kernel of quantized weights gets them, and as what it gets stands for. */
export function activations(x: Float32Array, inner: number) {
  const rows = Array.from({ length: x.length / inner }, (_, t) => quantizeQ8(x.subarray(t * inner, (t + 1) * inner)));
  const meaning = Float64Array.from(x, (_, i) => {
    const row = rows[Math.floor(i / inner)]!;
    return row.quants[i % inner]! * row.scales[Math.floor((i % inner) / Q8_BLOCK)]!;
  });
  return { packed: new Uint8Array(Buffer.concat(rows.map(packRow))), meaning, rows };
}

/** A matrix of the file, `out` rows, as repack lays it out. */
export function repacked(type: PackedType, weight: Uint8Array, out: number): Uint8Array {
  const rowBytes = weight.length / out;
  return Uint8Array.from(
    Buffer.concat(
      Array.from({ length: out }, (_, n) => repackRow(type, weight.subarray(n * rowBytes, (n + 1) * rowBytes))),
    ),
  );
}

/** Number of blocks of the file that make up a row of about `units` times the narrowest packed width. */
export function packedWidth(type: PackedType, units: number): { readonly fileBlocks: number; readonly inner: number } {
  const { blockElements } = blockFormat(type);
  const fileBlocks = blockElements === 256 ? Math.ceil(units / 4) : 2 * units;
  return { fileBlocks, inner: fileBlocks * blockElements };
}

/** Numbers that rows of quantized activations stand for, and the scale of each element. */
export function dequantizeRows(packed: Uint8Array, inner: number) {
  const rowBytes = (inner / Q8_BLOCK) * Q8_BLOCK_BYTES;
  const rows = packed.length / rowBytes;
  const [values, scales] = [new Float64Array(rows * inner), new Float64Array(rows * inner)];
  for (let t = 0; t < rows; t++) {
    const row = packed.slice(t * rowBytes, (t + 1) * rowBytes).buffer;
    const quants = new Int8Array(row, 0, inner);
    const blockScales = new Float32Array(row, inner, inner / Q8_BLOCK);
    for (let i = 0; i < inner; i++) {
      scales[t * inner + i] = blockScales[Math.floor(i / Q8_BLOCK)]!;
      values[t * inner + i] = quants[i]! * scales[t * inner + i]!;
    }
  }
  return { values, scales };
}

/**
 * Holds rows of quantized activations against what they are to stand for: half a step, and what the values before
 * quantization may be off by.
 */
export function expectQuantized(packed: Uint8Array, expected: Float64Array, inner: number, off: (i: number) => number) {
  const { values, scales } = dequantizeRows(packed, inner);
  expected.forEach((value, i) => {
    const bound = 0.50002 * scales[i]! + off(i) + 1e-36;
    const error = Math.abs(values[i]! - value);
    if (!(error <= bound)) throw new Error(`element ${i} is ${values[i]}, expected ${value} within ${bound}`);
  });
}
