import { RocmForgeError } from '../../shared/errors.js';
import type { GgufFile, GgufTensor } from '../../shared/gguf/reader.js';
import { loadAddon, type MappedFile } from '../device/addon.js';
import type { Device, DeviceBuffer, Dtype } from '../device/device.js';
import { BLOCK_TYPES, type BlockType, type WeightFloatType } from '../kernels/contracts/index.js';

/** A weight matrix `[rows, columns]` on the device, in the element type or the blocks the file gives it. */
export interface Matrix {
  readonly type: WeightFloatType | BlockType;
  readonly buffer: DeviceBuffer;
  readonly rows: number;
  readonly columns: number;
}

const FLOAT_TYPES: Readonly<Partial<Record<string, WeightFloatType>>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };

/** Types of weight matrices that there are kernels for, as GGUF files name them. */
export const MATRIX_TYPES: readonly string[] = [
  ...Object.keys(FLOAT_TYPES),
  ...BLOCK_TYPES.map((type) => type.toUpperCase()),
];

/** Bytes of all tensors of a file. */
export function tensorBytes(file: GgufFile): number {
  let sum = 0;
  for (const tensor of file.tensors.values()) sum += tensor.bytes;
  return sum;
}

/**
 * A model file's tensors on the device. On the host they stay where the file is mapped: nothing is copied, and the
 * kernel may drop and re-read pages. A GPU gets a copy of each.
 */
export class Weights {
  private readonly addresses = new Map<string, number>();

  private constructor(
    private readonly file: GgufFile,
    private readonly mapping: MappedFile,
  ) {}

  /**
   * Maps the file and brings it to the device.
   *
   * @param onProgress called with bytes done and in all
   * @throws RocmForgeError `MODEL_FILE_UNREADABLE`, `GGUF_INVALID`, or `OUT_OF_MEMORY` of a GPU
   */
  static async load(
    device: Device,
    file: GgufFile,
    path: string,
    onProgress: (done: number, total: number) => void,
  ): Promise<Weights> {
    let mapping: MappedFile;
    try {
      mapping = new (loadAddon().MappedFile)(path);
    } catch (error) {
      throw new RocmForgeError('MODEL_FILE_UNREADABLE', (error as Error).message, {}, { cause: error });
    }
    if (mapping.size < file.size) {
      throw new RocmForgeError('GGUF_INVALID', `${path} shrank while it was being read`);
    }
    const weights = new Weights(file, mapping);
    const total = weights.bytes;
    const chunk = 64 << 20;
    let done = 0;
    for (const [name, tensor] of file.tensors) {
      const source = mapping.address + tensor.offset;
      const target = device.isHost ? source : device.allocate('u8', tensor.bytes).address;
      weights.addresses.set(name, target);
      for (let offset = 0; offset < tensor.bytes; offset += chunk) {
        const bytes = Math.min(chunk, tensor.bytes - offset);
        await mapping.touch(tensor.offset + offset, bytes);
        if (!device.isHost) device.native.upload(target + offset, source + offset, bytes);
        done += bytes;
        onProgress(done, total);
      }
    }
    return weights;
  }

  /** Bytes of all tensors. */
  get bytes(): number {
    return tensorBytes(this.file);
  }

  /** Where the file lies in the host's memory. */
  get hostAddress(): number {
    return this.mapping.address;
  }

  /** Bytes that one token's step reads: all tensors, but one row of an embedding that is no output projection too. */
  get bytesReadPerToken(): number {
    const embedding = this.has('output.weight') ? this.file.tensors.get('token_embd.weight') : undefined;
    return embedding === undefined ? this.bytes : this.bytes - embedding.bytes * (1 - 1 / (embedding.dims[1] ?? 1));
  }

  /** Elements of all tensors. */
  get parameters(): number {
    let sum = 0;
    for (const tensor of this.file.tensors.values()) sum += tensor.dims.reduce((product, size) => product * size, 1);
    return sum;
  }

  has(name: string): boolean {
    return this.file.tensors.has(name);
  }

  /**
   * A matrix of exactly this shape. Throws `GGUF_INVALID` when it is missing or shaped otherwise, `MODEL_UNSUPPORTED`
   * when its element type has no kernels.
   */
  matrix(name: string, rows: number, columns: number): Matrix {
    const tensor = this.tensor(name, [columns, rows]);
    const float = FLOAT_TYPES[tensor.type];
    if (float !== undefined) {
      return { type: float, buffer: this.buffer(tensor, float, rows * columns), rows, columns };
    }
    const block = BLOCK_TYPES.find((type) => type.toUpperCase() === tensor.type);
    if (block === undefined) {
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `tensor ${name} is ${tensor.type}, which is not built yet; built are ${MATRIX_TYPES.join(', ')}`,
        { tensor: name },
      );
    }
    return { type: block, buffer: this.buffer(tensor, 'u8', tensor.bytes), rows, columns };
  }

  /** An f32 vector of exactly this length. Throws as {@link matrix} does. */
  vector(name: string, length: number): DeviceBuffer {
    const tensor = this.tensor(name, [length]);
    if (tensor.type !== 'F32') {
      throw new RocmForgeError('MODEL_UNSUPPORTED', `tensor ${name} is ${tensor.type}; norms and biases must be F32`, {
        tensor: name,
      });
    }
    return this.buffer(tensor, 'f32', length);
  }

  private tensor(name: string, dims: readonly number[]): GgufTensor {
    const tensor = this.file.tensors.get(name);
    if (tensor === undefined) {
      throw new RocmForgeError('GGUF_INVALID', `${this.file.name} holds no tensor ${name}`, { tensor: name });
    }
    if (tensor.dims.join() !== dims.join()) {
      throw new RocmForgeError(
        'GGUF_INVALID',
        `tensor ${name} is [${tensor.dims.join(', ')}], the model's parameters say [${dims.join(', ')}]`,
        { tensor: name },
      );
    }
    return tensor;
  }

  private buffer(tensor: GgufTensor, dtype: Dtype, elements: number): DeviceBuffer {
    return { address: this.addresses.get(tensor.name) as number, dtype, elements };
  }
}
