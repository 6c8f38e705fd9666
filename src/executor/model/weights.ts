import { RocmForgeError } from '../../shared/errors.js';
import { isHarmlessTensor } from '../../shared/gguf/harmless.js';
import type { GgufFile, GgufTensor } from '../../shared/gguf/reader.js';
import { loadAddon, type MappedFile } from '../device/addon.js';
import { bufferFrom, type Device, type DeviceBuffer, type DeviceScope, type Dtype } from '../device/device.js';
import {
  BLOCK_TYPES,
  type BlockType,
  blockFormat,
  canPack,
  packedRowBytes,
  repack,
  type WeightFloatType,
} from '../kernels/contracts/index.js';
import { LaunchPlanRecorder } from '../kernels/launch-plan.js';
import type { Matrix } from './matrix.js';

const FLOAT_TYPES: Readonly<Partial<Record<string, WeightFloatType>>> = { F32: 'f32', F16: 'f16', BF16: 'bf16' };

/** Types of weight matrices that there are kernels for, as GGUF files name them. */
export const MATRIX_TYPES: readonly string[] = [
  ...Object.keys(FLOAT_TYPES),
  ...BLOCK_TYPES.map((type) => type.toUpperCase()),
];

/** The tensors that are brought to a device: all that are not known to be of no use. */
function wanted(file: GgufFile): GgufTensor[] {
  return [...file.tensors.values()].filter(({ name }) => !isHarmlessTensor(name));
}

/** Bytes of the tensors that are brought to a device. */
export function tensorBytes(file: GgufFile): number {
  return wanted(file).reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Tensors that one launch can multiply when they lie side by side: their names' parts after `blk.N.`. */
const JOINED = [
  ['attn_q.weight', 'attn_k.weight', 'attn_v.weight'],
  ['ffn_gate.weight', 'ffn_up.weight'],
];
const EMBEDDING = 'token_embd.weight';
const CHUNK_BYTES = 64 << 20;
/** Where a tensor may begin in a GPU's memory. */
const ALIGNMENT = 256;

/**
 * A model file's tensors on the device. On the host they stay where the file is mapped: nothing is copied, and the
 * kernel may drop and re-read pages. A GPU gets a copy of each, repacked where its kernels read another layout.
 */
export class Weights {
  /** Of each tensor as it lies in the file. */
  private readonly addresses = new Map<string, number>();
  /** Of each tensor that was repacked. */
  private readonly packed = new Map<string, DeviceBuffer>();
  /** Names of those that were asked for. */
  private readonly read = new Set<string>();

  private constructor(
    private readonly file: GgufFile,
    private readonly mapping: MappedFile,
  ) {}

  /**
   * Brings the tensors to the device.
   *
   * @param memory what it allocates ends with this scope
   * @param mapping the file, as {@link mapModelFile} maps it
   * @param onProgress called with bytes done and in all
   * @throws RocmForgeError `MODEL_FILE_CHANGED` when the file was written to meanwhile, or `OUT_OF_MEMORY` of a GPU
   */
  static async load(
    memory: DeviceScope,
    file: GgufFile,
    mapping: MappedFile,
    onProgress: (done: number, total: number) => void,
  ): Promise<Weights> {
    if (mapping.size < file.size) throw fileChanged(file.name);
    const { device } = memory;
    const weights = new Weights(file, mapping);
    const total = weights.bytes;
    let done = 0;
    const bring = async (tensor: GgufTensor, onChunk: (offset: number, bytes: number) => void) => {
      for (let offset = 0; offset < tensor.bytes; offset += CHUNK_BYTES) {
        const bytes = Math.min(CHUNK_BYTES, tensor.bytes - offset);
        await mapping.touch(tensor.offset + offset, bytes);
        onChunk(offset, bytes);
        done += bytes;
        onProgress(done, total);
      }
    };
    if (device.isHost) {
      for (const tensor of wanted(file)) {
        weights.addresses.set(tensor.name, mapping.address + tensor.offset);
        await bring(tensor, () => undefined);
      }
    } else {
      await weights.upload(memory, bring);
    }
    weights.checkFile();
    return weights;
  }

  /** Copies each tensor to the GPU; tensors that are multiplied together lie side by side. */
  private async upload(
    memory: DeviceScope,
    bring: (tensor: GgufTensor, onChunk: (offset: number, bytes: number) => void) => Promise<void>,
  ): Promise<void> {
    const { device } = memory;
    const scratch = memory.child();
    const packable = wanted(this.file).filter((tensor) => packedBytes(tensor) !== undefined);
    const raw = scratch.allocate('u8', Math.max(0, ...packable.map(({ bytes }) => bytes)));
    for (const group of this.groups()) {
      const isEmbedding = group[0]?.name === EMBEDDING;
      const sizes = group.map((tensor) => (isEmbedding ? undefined : packedBytes(tensor)) ?? tensor.bytes);
      const buffer = memory.allocate(
        'u8',
        sizes.reduce((sum, bytes) => sum + bytes, 0),
      );
      let offset = 0;
      for (const [i, tensor] of group.entries()) {
        const bytes = sizes[i] as number;
        const place = { ...bufferFrom(buffer, offset), elements: bytes };
        offset += bytes;
        const source = this.mapping.address + tensor.offset;
        const isPacked = !isEmbedding && packedBytes(tensor) !== undefined;
        const target = isPacked ? raw : place;
        if (!isPacked) this.addresses.set(tensor.name, place.address);
        await bring(tensor, (at, length) => device.native.upload(target.address + at, source + at, length));
        if (isPacked) await this.repack(device, tensor, raw, place);
      }
    }
    // A tied embedding is read by rows as the file has it, and multiplied as GPUs read it.
    const embedding = this.file.tensors.get(EMBEDDING);
    const bytes = embedding && packedBytes(embedding);
    if (embedding !== undefined && bytes !== undefined && !this.has('output.weight')) {
      const table = {
        address: this.addresses.get(EMBEDDING) as number,
        dtype: 'u8',
        elements: embedding.bytes,
      } as const;
      await this.repack(device, embedding, table, memory.allocate('u8', bytes));
    }
    scratch.release();
  }

  private async repack(device: Device, tensor: GgufTensor, source: DeviceBuffer, target: DeviceBuffer): Promise<void> {
    const type = tensor.type.toLowerCase() as BlockType;
    const [columns = 0, out = 0] = tensor.dims;
    const blocks = columns / blockFormat(type).blockElements;
    const recorder = new LaunchPlanRecorder(device, 0);
    recorder.launch(repack(type), { source, target, out, blocks }, { row_bytes: packedRowBytes(type, columns) });
    await recorder.run();
    this.packed.set(tensor.name, target);
  }

  /** All tensors, those that are to lie side by side together: same type, and nothing between them. */
  private groups(): GgufTensor[][] {
    const grouped = new Set<string>();
    const groups: GgufTensor[][] = [];
    for (const tensor of wanted(this.file)) {
      if (grouped.has(tensor.name)) continue;
      const [, layer = '', part] = /^(blk\.\d+\.)(.*)$/.exec(tensor.name) ?? [];
      const family = JOINED.find((names) => part !== undefined && names.includes(part)) ?? [];
      const members = family
        .map((name) => this.file.tensors.get(layer + name))
        .filter((member) => member !== undefined && member.type === tensor.type && fits(member)) as GgufTensor[];
      const group = members.includes(tensor) ? members : [tensor];
      for (const { name } of group) grouped.add(name);
      groups.push(group);
    }
    return groups;
  }

  /** Bytes of the tensors that were brought here. */
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

  /** Whether a tensor is in blocks of small whole numbers. */
  isQuantized(name: string): boolean {
    const type = this.file.tensors.get(name)?.type;
    return type !== undefined && FLOAT_TYPES[type] === undefined;
  }

  has(name: string): boolean {
    return this.file.tensors.has(name);
  }

  /**
   * Refuses a file with a tensor that nothing asked for and that is not known to be harmless: to be called once the model is
   * recorded.
   *
   * @throws RocmForgeError `MODEL_UNSUPPORTED` naming it
   */
  refuseUnread(): void {
    const unread = wanted(this.file).filter(({ name }) => !this.read.has(name));
    const [first] = unread;
    if (first === undefined) return;
    const others = unread.length === 1 ? '' : ` and ${unread.length - 1} more`;
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `${this.file.name}: nothing here uses tensor ${first.name} [${first.dims.join(', ')}]${others}: without it the model ` +
        'may compute something else',
      { tensor: first.name },
    );
  }

  /** Whether the file that the weights lie in was written to since it was mapped. */
  get isFileChanged(): boolean {
    return this.mapping.isChanged();
  }

  /** @throws RocmForgeError `MODEL_FILE_CHANGED` when {@link isFileChanged} */
  checkFile(): void {
    if (this.isFileChanged) throw fileChanged(this.file.name);
  }

  /**
   * A matrix of exactly this shape. Throws `GGUF_INVALID` when it is missing or shaped otherwise, `MODEL_UNSUPPORTED`
   * when its element type has no kernels.
   */
  matrix(name: string, rows: number, columns: number): Matrix {
    const buffer = this.packed.get(name);
    if (buffer === undefined) return this.table(name, rows, columns);
    const tensor = this.tensor(name, [columns, rows]);
    return { type: tensor.type.toLowerCase() as BlockType, packed: true, buffer, rows, columns };
  }

  /** A matrix as the file has it, whose rows are read one by one. Throws as {@link matrix} does. */
  table(name: string, rows: number, columns: number): Matrix {
    const tensor = this.tensor(name, [columns, rows]);
    const float = FLOAT_TYPES[tensor.type];
    if (float !== undefined) {
      return { type: float, packed: false, buffer: this.buffer(tensor, float, rows * columns), rows, columns };
    }
    const block = BLOCK_TYPES.find((type) => type.toUpperCase() === tensor.type);
    if (block === undefined) {
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `tensor ${name} is ${tensor.type}, which is not built yet; built are ${MATRIX_TYPES.join(', ')}`,
        { tensor: name },
      );
    }
    return { type: block, packed: false, buffer: this.buffer(tensor, 'u8', tensor.bytes), rows, columns };
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
    this.read.add(name);
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

/** Maps a model file. @throws RocmForgeError `MODEL_FILE_UNREADABLE` */
export function mapModelFile(path: string): MappedFile {
  try {
    return new (loadAddon().MappedFile)(path);
  } catch (error) {
    throw new RocmForgeError('MODEL_FILE_UNREADABLE', (error as Error).message, {}, { cause: error });
  }
}

/** The weights are not those any more that were loaded. */
function fileChanged(name: string): RocmForgeError {
  return new RocmForgeError('MODEL_FILE_CHANGED', `${name} was written to while its weights were in use`);
}

/** Bytes of a tensor repacked for GPUs; undefined for one whose kernels read it as it is. */
function packedBytes(tensor: GgufTensor): number | undefined {
  const type = BLOCK_TYPES.find((candidate) => candidate.toUpperCase() === tensor.type);
  const [columns = 0, rows] = tensor.dims;
  if (type === undefined || rows === undefined || !canPack(type, columns)) return undefined;
  return rows * packedRowBytes(type, columns);
}

/** Whether what follows the tensor in memory still begins where kernels may read 16 bytes at once. */
function fits(tensor: GgufTensor): boolean {
  return (packedBytes(tensor) ?? tensor.bytes) % ALIGNMENT === 0;
}
