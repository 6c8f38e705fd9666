import { type BlockType, blockFormat, Q8_BLOCK } from '../../../src/executor/kernels/contracts/index.js';
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
export function repacked(type: BlockType, weight: Uint8Array, out: number): Uint8Array {
  const rowBytes = weight.length / out;
  return Uint8Array.from(
    Buffer.concat(
      Array.from({ length: out }, (_, n) => repackRow(type, weight.subarray(n * rowBytes, (n + 1) * rowBytes))),
    ),
  );
}

/** How many blocks of the file make up a row of about `units` times the narrowest packed width. */
export function packedWidth(type: BlockType, units: number): { readonly fileBlocks: number; readonly inner: number } {
  const { blockElements } = blockFormat(type);
  const fileBlocks = blockElements === 256 ? Math.ceil(units / 4) : 2 * units;
  return { fileBlocks, inner: fileBlocks * blockElements };
}
