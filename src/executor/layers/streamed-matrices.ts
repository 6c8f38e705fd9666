import { bufferFrom, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, LaunchPlanRecorder } from '../kernels/launch-plan.js';
import type { Matrix } from '../model/matrix.js';

/** Bytes of a matrix that cross the bus at a time, through pinned chunks of memory that take turns. */
const CHUNK_BYTES = 32 << 20;
const CHUNKS = 2;

/** A matrix in blocks that a GPU can have in planes. */
export type PackableMatrix = Matrix & { readonly type: kernels.PackedType };

/**
 * Matrices in host memory that a GPU multiplies in steps of many rows. The CPU copies a chunk to pinned memory while the GPU brings and
 * packs the one before it; the whole matrix is then multiplied as any other of its layout.
 */
export class StreamedMatrices {
  private readonly chunks: readonly DeviceBuffer[];
  private readonly raw: DeviceBuffer;
  private readonly planes: DeviceBuffer;
  private readonly chunkBytes: number;
  private next = 0;

  /** @param matrices all that it will bring */
  constructor(
    memory: DeviceScope,
    private readonly plan: LaunchPlanRecorder,
    matrices: readonly Pick<PackableMatrix, 'type' | 'rows' | 'columns' | 'experts'>[],
  ) {
    const bytes = matrices.map(({ type, rows, columns, experts = 1 }) => experts * rows * fileRowBytes(type, columns));
    this.chunkBytes = Math.min(CHUNK_BYTES, Math.max(...bytes));
    const words = Math.ceil(this.chunkBytes / Int32Array.BYTES_PER_ELEMENT);
    this.chunks = Array.from({ length: CHUNKS }, () => memory.allocatePinned('i32', words));
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
    // A row has an even number of bytes: an even number of rows is whole words.
    const atOnce = 2 * Math.floor(this.chunkBytes / (2 * rowBytes));
    if (atOnce === 0) throw new RangeError(`a row of ${rowBytes} bytes`);
    for (let row = 0; row < rows; row += atOnce) {
      const out = Math.min(atOnce, rows - row);
      const count = Math.ceil((out * rowBytes) / Int32Array.BYTES_PER_ELEMENT);
      const source = { address: buffer.address + row * rowBytes, dtype: 'i32', elements: count } as const;
      const slot = this.next++ % CHUNKS;
      const chunk = this.chunks[slot] as DeviceBuffer;
      this.plan.launchOnHost(kernels.copyChunks, { x: source, y: chunk, count }, {}, { when, behindMark: slot });
      this.plan.launch(kernels.copyWords, { x: chunk, y: this.raw, count }, {}, when);
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
