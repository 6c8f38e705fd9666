import { bufferFrom, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, LaunchPlanRecorder } from '../kernels/launch-plan.js';
import type { Matrix } from '../model/matrix.js';

/** Bytes of a matrix that cross the bus at a time, through pinned pieces of memory that take turns. */
const PIECE_BYTES = 32 << 20;
const PIECES = 2;

/** A matrix in blocks that a GPU can have in planes. */
export type PackableMatrix = Matrix & { readonly type: kernels.PackedType };

/**
 * Matrices in host memory that a GPU multiplies in steps of many rows. The CPU copies a piece to pinned memory while the GPU brings and
 * packs the one before it; the whole matrix is then multiplied as any other of its layout.
 */
export class StreamedMatrices {
  private readonly pieces: readonly DeviceBuffer[];
  private readonly raw: DeviceBuffer;
  private readonly planes: DeviceBuffer;
  private readonly pieceBytes: number;
  private next = 0;

  /** @param matrices all that it will bring */
  constructor(
    memory: DeviceScope,
    private readonly plan: LaunchPlanRecorder,
    matrices: readonly Pick<PackableMatrix, 'type' | 'rows' | 'columns' | 'experts'>[],
  ) {
    const bytes = matrices.map(({ type, rows, columns, experts = 1 }) => experts * rows * fileRowBytes(type, columns));
    this.pieceBytes = Math.min(PIECE_BYTES, Math.max(...bytes));
    const words = Math.ceil(this.pieceBytes / Int32Array.BYTES_PER_ELEMENT);
    this.pieces = Array.from({ length: PIECES }, () => memory.allocatePinned('i32', words));
    this.raw = memory.allocate('i32', words);
    const sizes = matrices.map(
      ({ type, rows, columns, experts = 1 }) => experts * rows * kernels.packedRowBytes(type, columns),
    );
    this.planes = memory.allocate('u8', Math.max(...sizes));
  }

  /** Brings a matrix to the GPU. @returns it, until the next one is brought @param when in which steps */
  bring(matrix: PackableMatrix, when: LaunchCondition): Matrix {
    const { type, columns, buffer } = matrix;
    const blocks = columns / kernels.blockFormat(type).blockElements;
    const rowBytes = fileRowBytes(type, columns);
    const row_bytes = kernels.packedRowBytes(type, columns);
    const rows = matrix.rows * (matrix.experts ?? 1);
    // Of even bytes each, so that an even number of them is whole words.
    const atOnce = 2 * Math.floor(this.pieceBytes / (2 * rowBytes));
    if (atOnce === 0) throw new RangeError(`a row of ${rowBytes} bytes`);
    for (let row = 0; row < rows; row += atOnce) {
      const out = Math.min(atOnce, rows - row);
      const count = Math.ceil((out * rowBytes) / Int32Array.BYTES_PER_ELEMENT);
      const source = { address: buffer.address + row * rowBytes, dtype: 'i32', elements: count } as const;
      const slot = this.next++ % PIECES;
      const piece = this.pieces[slot] as DeviceBuffer;
      this.plan.launchOnHost(kernels.copyChunks, { x: source, y: piece, count }, {}, { when, behindMark: slot });
      this.plan.launch(kernels.copyWords, { x: piece, y: this.raw, count }, {}, when);
      this.plan.mark(slot);
      const raw = { address: this.raw.address, dtype: 'u8', elements: out * rowBytes } as const;
      const target = bufferFrom(this.planes, row * row_bytes);
      this.plan.launch(kernels.repack(type), { source: raw, target, out, blocks }, { row_bytes }, when);
    }
    return { ...matrix, layout: 'planes', buffer: this.planes };
  }
}

function fileRowBytes(type: kernels.PackedType, columns: number): number {
  const { blockElements, blockBytes } = kernels.blockFormat(type);
  return (columns / blockElements) * blockBytes;
}
