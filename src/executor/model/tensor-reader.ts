import type { GgufTensor } from '../../lib/gguf/reader.js';
import type { ModelContent } from './mapped-model.js';
import { pitchOf } from './tensors.js';

const CHUNK_BYTES = 64 << 20;
/** Chunks that are read at once: as many as the threads of Node's pool, so that memory or the disk is what limits a load. */
const CHUNKS_AHEAD = 4;

/** Bytes of a tensor that are brought at once. */
export interface Chunk {
  /** First bytes in the tensor as it is loaded, and in the file; in the file they span more if rows lie apart. */
  readonly at: number;
  readonly from: number;
  readonly bytes: number;
  readonly span: number;
  /** Bytes of each row and of the distance to the next, if rows lie apart. */
  readonly rows?: { readonly bytes: number; readonly pitch: number };
}
export type OnChunk = (chunk: Chunk) => void;

/**
 * A tensor in the pieces in which it is brought to the device, in their order.
 *
 * @param most bytes of a piece, and of what it spans in the file where it has several rows
 */
export function* chunksOf(tensor: GgufTensor, most = CHUNK_BYTES): Generator<Chunk> {
  const pitch = pitchOf(tensor);
  if (pitch === undefined) {
    for (let at = 0; at < tensor.bytes; at += most) {
      const bytes = Math.min(most, tensor.bytes - at);
      yield { at, from: at, bytes, span: bytes };
    }
    return;
  }
  const count = tensor.dims[1] as number;
  const rowBytes = tensor.bytes / count;
  const rowsAtOnce = Math.max(1, Math.floor(most / pitch));
  for (let row = 0; row < count; row += rowsAtOnce) {
    const rows = Math.min(rowsAtOnce, count - row);
    const span = (rows - 1) * pitch + rowBytes;
    const apart = { bytes: rowBytes, pitch };
    yield { at: row * rowBytes, from: row * pitch, bytes: rows * rowBytes, span, rows: apart };
  }
}

/** Reads tensors in a fixed order, some chunks ahead of their use, and sums up what was read. */
export class TensorReader {
  private readonly chunks: Iterator<readonly [GgufTensor, Chunk]>;
  private readonly ahead: Promise<bigint>[] = [];
  private sum = 0n;

  /** @param order the tensors as they will be asked for */
  constructor(
    private readonly content: Pick<ModelContent, 'read'>,
    order: readonly GgufTensor[],
  ) {
    this.chunks = chunksOfAll(order);
    for (let i = 0; i < CHUNKS_AHEAD; i++) this.begin();
  }

  /**
   * Reads the next tensor.
   *
   * @param tensor that tensor
   * @param onChunk called with each of its chunks once that is in memory
   */
  async read(tensor: GgufTensor, onChunk: OnChunk): Promise<void> {
    for (const chunk of chunksOf(tensor)) {
      // Summed without regard to order: a GPU is given the tensors in another one than the host.
      this.sum = BigInt.asUintN(64, this.sum + ((await this.ahead.shift()) ?? 0n));
      this.begin();
      onChunk(chunk);
    }
  }

  /** A 64-bit checksum of the chunks that were read, wherever their content lies. It finds changes, not forgeries. */
  get checksum(): bigint {
    return this.sum;
  }

  /** Resolves when nothing is being read any more: the content may be closed. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.ahead);
  }

  private begin(): void {
    const { done, value } = this.chunks.next();
    if (done) return;
    const [tensor, { from, span }] = value;
    const reading = this.content.read(tensor, from, span);
    // Whoever awaits it hears of it; a load that ended before does not.
    reading.catch(() => undefined);
    this.ahead.push(reading);
  }
}

function* chunksOfAll(tensors: readonly GgufTensor[]): Generator<readonly [GgufTensor, Chunk]> {
  for (const tensor of tensors) for (const chunk of chunksOf(tensor)) yield [tensor, chunk];
}
