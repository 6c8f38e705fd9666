import type { GgufModel, GgufTensor } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';
import { bufferFrom, type Device, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import { isBlockType } from '../kernels/index.js';
import { DeviceSums } from './device-sums.js';
import type { ModelContent } from './mapped-model.js';
import { firstRows, type Matrix } from './matrix.js';
import { type NotedWeights, notedWeights, noteWeights } from './noted-weights.js';
import { stageTensors } from './stages.js';
import { type Chunk, type OnChunk, TensorReader } from './tensor-reader.js';
import { type MatrixRef, pitchOf, type VectorRef } from './tensors.js';
import { type Experts, expertMatrices, type StageGraph, valuesOf } from './values.js';
import { ALIGNMENT, WeightPlaces } from './weight-places.js';

/**
 * The tensors of a model, or of a stage of it, on the device. On the host they stay where the file is mapped: nothing is copied, and the
 * kernel may drop and re-read pages. A GPU gets a copy of each, repacked where its kernels read another layout.
 */
export class Weights {
  /** Matrices that lie on the device as in the file. */
  private readonly addresses = new Map<string, number>();
  /** Matrices that lie on this device otherwise than in the file. */
  private readonly packed = new Map<string, DeviceBuffer>();
  /** Experts whose gates and ups are one matrix each, by the gate's name. */
  private readonly gateUps = new Map<string, DeviceBuffer>();
  private sum = 0n;
  /** Allocations on a GPU, and their checksums where they outlive this process. */
  private brought: DeviceSums | undefined;
  private sums: readonly string[] | undefined;
  /** Number of allocations that a process before this one had brought, and that were damaged and are brought again. */
  restored = 0;

  private constructor(
    private readonly tensors: readonly GgufTensor[],
    private readonly content: ModelContent,
    private readonly graph: StageGraph,
    private readonly places: WeightPlaces,
    private readonly onHostAlone: ReadonlySet<GgufTensor>,
  ) {}

  /**
   * Brings the tensors to the device.
   *
   * @param memory what it allocates ends with this scope
   * @param content of its tensors
   * @param graph says which matrices are multiplied together
   * @param onProgress called with bytes done and in all
   * @param onHostAlone matrices of experts that stay in the host's memory, where the file is mapped
   * @throws RocmForgeError `MODEL_FILE_CHANGED` when a file was written to meanwhile, or `OUT_OF_MEMORY` of a GPU
   */
  static async load(
    memory: DeviceScope,
    file: GgufModel,
    content: ModelContent,
    graph: StageGraph,
    onProgress: (done: number, total: number) => void,
    onHostAlone: ReadonlySet<GgufTensor> = new Set(),
  ): Promise<Weights> {
    const { device } = memory;
    const tensors = stageTensors(file, graph);
    const places = new WeightPlaces(device, graph, onHostAlone);
    const weights = new Weights(tensors, content, graph, places, onHostAlone);
    const total = weights.bytes;
    const groups = weights.groups();
    const reader = new TensorReader(content, device.isHost ? weights.tensors : [...groups.flat(), ...onHostAlone]);
    let done = 0;
    let noted: NotedWeights | undefined;
    const bring = (tensor: GgufTensor, onChunk: OnChunk) =>
      reader.read(tensor, (chunk) => {
        onChunk(chunk);
        done += chunk.bytes;
        onProgress(done, total);
      });
    try {
      if (device.isHost) {
        for (const tensor of weights.tensors) {
          const address = content.address(tensor);
          const own = pitchOf(tensor) === undefined ? undefined : memory.allocate('u8', tensor.bytes).address;
          weights.addresses.set(tensor.name, own ?? address);
          await bring(tensor, (chunk) => own !== undefined && copyChunk(device, chunk, own, address));
        }
      } else {
        noted = await weights.upload(memory, groups, bring);
        for (const tensor of onHostAlone) {
          weights.addresses.set(tensor.name, content.address(tensor));
          // Read for its checksum, which a note has already.
          if (noted === undefined) await bring(tensor, () => undefined);
        }
      }
    } finally {
      // The caller that ends the load closes the mapping.
      await reader.settled();
    }
    weights.sum = noted?.checksum ?? reader.checksum;
    content.check();
    if (device.kept !== undefined && !device.isHost) await weights.settle(memory, noted);
    return weights;
  }

  /**
   * Copies each tensor to the GPU; tensors that are multiplied together lie side by side. What a process before this one has put
   * there, and is right, stays.
   */
  private async upload(
    memory: DeviceScope,
    groups: readonly (readonly GgufTensor[])[],
    bring: (tensor: GgufTensor, onChunk: OnChunk) => Promise<void>,
  ): Promise<NotedWeights | undefined> {
    const { device } = memory;
    const { places } = this;
    const sizes = groups.map((group) => group.reduce((sum, tensor) => sum + places.bytes(tensor), 0));
    await device.kept?.reserve('weights', [...sizes, places.tiedBytes]);
    const buffers = sizes.map((bytes) => memory.allocateKept('u8', bytes));
    const table = places.tiedBytes > 0 ? memory.allocateKept('u8', places.tiedBytes) : undefined;
    const all = table === undefined ? buffers : [...buffers, table];
    const brought = new DeviceSums(memory, all);
    this.brought = brought;
    const noted = notedWeights(device, all.length);
    const sums = noted && (await brought.of());
    const isThere = (index: number): boolean => sums !== undefined && sums[index] === noted?.sums[index];
    this.restored = noted === undefined ? 0 : all.filter((_, i) => !isThere(i)).length;
    if (this.restored > 0) await device.kept?.repaired();
    const scratch = memory.child(false);
    const packable = groups.flat().filter((tensor) => places.packedBytes(tensor) !== undefined);
    const isComplete = noted !== undefined && this.restored === 0;
    const raw = scratch.allocate('u8', isComplete ? 1 : Math.max(0, ...packable.map(({ bytes }) => bytes)));
    for (const [index, group] of groups.entries()) {
      const buffer = buffers[index] as DeviceBuffer;
      let offset = 0;
      for (const [i, tensor] of group.entries()) {
        const bytes = places.bytes(tensor);
        const [gate] = places.gateAndUp(tensor) ?? [];
        const matrixBytes = bytes / (tensor.dims[2] ?? 1);
        // A gate is followed by its expert's up.
        const place = gate ? bufferFrom(buffer, i * matrixBytes) : { ...bufferFrom(buffer, offset), elements: bytes };
        offset += bytes;
        const isPacked = places.packedBytes(tensor) !== undefined;
        if (!isPacked) this.addresses.set(tensor.name, place.address);
        else if (gate === undefined) this.packed.set(tensor.name, place);
        else this.gateUps.set(gate.name, buffer);
        if (isThere(index)) continue;
        const source = this.content.address(tensor);
        const target = isPacked ? raw : place;
        await bring(tensor, (chunk) => copyChunk(device, chunk, target.address, source));
        if (isPacked) await places.packing.pack(device, tensor, raw, place, gate && 2 * matrixBytes);
      }
    }
    if (table !== undefined) {
      const embedding = this.places.tied as GgufTensor;
      const address = this.addresses.get(embedding.name) as number;
      this.packed.set(embedding.name, table);
      if (!isThere(all.length - 1)) {
        await places.packing.pack(device, embedding, { address, dtype: 'u8', elements: embedding.bytes }, table);
      }
    }
    scratch.release();
    return noted;
  }

  /** Leaves a note of what was brought, for a process that finds it on the device; or checks what was brought again against it. */
  private async settle(memory: DeviceScope, noted: NotedWeights | undefined): Promise<void> {
    this.sums = noted?.sums ?? (await this.brought?.of()) ?? [];
    if (noted === undefined) {
      await noteWeights(memory.device, { checksum: this.sum, sums: this.sums });
    } else if (this.restored > 0 && !(await this.isIntact())) {
      throw new RocmForgeError(
        'MODEL_FILE_CHANGED',
        'damaged weights were loaded again and differ from those before: the model file has other content',
      );
    }
  }

  /** True unless the device's memory holds something else than was brought; always where it ends with this process. */
  async isIntact(): Promise<boolean> {
    const { sums } = this;
    if (sums === undefined || this.brought === undefined) return true;
    const now = await this.brought.of();
    return now.every((sum, i) => sum === sums[i]);
  }

  /** All tensors, those that are multiplied together side by side: same type, and nothing between them. */
  private groups(): GgufTensor[][] {
    const grouped = new Set<GgufTensor>();
    const groups: GgufTensor[][] = [];
    for (const tensor of this.tensors) {
      if (grouped.has(tensor) || this.onHostAlone.has(tensor)) continue;
      const members = this.places
        .multipliedWith(tensor)
        .filter((member) => member.type === tensor.type && this.fits(member));
      const group = members.includes(tensor) ? members : [tensor];
      for (const member of group) grouped.add(member);
      groups.push(group);
    }
    return groups;
  }

  /** True if what follows the tensor in memory still begins where kernels may read 16 bytes at once. */
  private fits(tensor: GgufTensor): boolean {
    return this.places.bytes(tensor) % ALIGNMENT === 0;
  }

  /** Bytes of the tensors that were brought here. */
  get bytes(): number {
    return this.tensors.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Bytes of the model in the host's memory, all in one file. */
  get onHost(): ModelContent['largest'] {
    return this.content.largest;
  }

  /**
   * Bytes that one token's step reads: all tensors, but one row of tables that are not multiplied too, and of experts those that a
   * token is sent to.
   */
  get bytesReadPerToken(): number {
    const { embedding, positions, layerInputs } = this.graph;
    const tables = [this.places.tied === undefined ? embedding : undefined, positions, layerInputs?.table];
    const unread = tables.map((table) => (table === undefined ? 0 : table.tensor.bytes * (1 - 1 / table.rows)));
    for (const value of valuesOf(this.graph)) {
      if (value.kind !== 'experts') continue;
      const { used, weight } = value.router;
      for (const { tensor } of expertMatrices(value)) unread.push(tensor.bytes * (1 - used / weight.rows));
    }
    return unread.reduce((left, bytes) => left - bytes, this.bytes);
  }

  /** {@link TensorReader.checksum} of all of them. */
  get checksum(): bigint {
    return this.sum;
  }

  /** True if matrices of the experts stay in the host's memory, and a GPU has none. */
  isOnHost({ down }: Experts): boolean {
    return this.onHostAlone.has(down.tensor);
  }

  /** True if steps read the mapped file. */
  get readsFile(): boolean {
    return this.places.isHost || this.onHostAlone.size > 0;
  }

  /** See `MappedModel.check`. */
  checkFiles(): void {
    this.content.check();
  }

  /** A matrix to be multiplied, in the layout that this device's kernels read. */
  matrix(ref: MatrixRef): Matrix {
    const { tensor, rows, columns, type, experts } = ref;
    const buffer = this.packed.get(tensor.name);
    if (buffer === undefined) return this.table(ref);
    if (experts !== undefined) return { type, layout: this.places.packing.layout, buffer, rows, columns, experts };
    return firstRows({ type, layout: this.places.packing.layout, buffer, rows: tensor.dims[1] ?? 1, columns }, rows);
  }

  /** The matrices of all experts as they are multiplied: gate and up may be one, a gate's rows before its expert's up's. */
  experts(value: Experts): { readonly gateUp: readonly Matrix[]; readonly down: Matrix } {
    const down = this.matrix(value.down);
    const separate = expertMatrices(value).slice(0, -1);
    const [gate] = separate as [MatrixRef];
    const buffer = this.gateUps.get(gate.tensor.name);
    if (buffer === undefined) return { gateUp: separate.map((matrix) => this.matrix(matrix)), down };
    const { type, rows, columns, experts } = gate as Required<MatrixRef>;
    const both = { type, layout: this.places.packing.layout, buffer, rows: 2 * rows, columns, experts };
    return { gateUp: [both], down };
  }

  /** A matrix as the file has it, whose rows are read one by one. */
  table({ tensor, type, rows, columns, experts }: MatrixRef): Matrix {
    const all = tensor.dims[1] as number;
    const count = all * columns * (experts ?? 1);
    const [dtype, elements] = isBlockType(type) ? (['u8', tensor.bytes] as const) : ([type, count] as const);
    const buffer = { address: this.addresses.get(tensor.name) as number, dtype, elements };
    if (experts !== undefined) return { type, layout: 'file', buffer, rows, columns, experts };
    return firstRows({ type, layout: 'file', buffer, rows: all, columns }, rows);
  }

  vector({ tensor, length }: VectorRef): DeviceBuffer {
    return { address: this.addresses.get(tensor.name) as number, dtype: 'f32', elements: length };
  }
}

/** @param target where the tensor is to lie @param source where it lies in the file's mapping */
function copyChunk(device: Device, { at, from, bytes, rows }: Chunk, target: number, source: number): void {
  device.native.upload(target + at, source + from, bytes, ...(rows === undefined ? [] : [rows.bytes, rows.pitch]));
}

/** Bytes that a model's tensors, or a stage's, take in a GPU's memory, but for those that stay in the host's. */
export function bytesOnGpu(
  device: Device,
  file: GgufModel,
  graph: StageGraph,
  onHostAlone: ReadonlySet<GgufTensor> = new Set(),
): number {
  const places = new WeightPlaces(device, graph, onHostAlone);
  const tensors = stageTensors(file, graph).filter((tensor) => !onHostAlone.has(tensor));
  return tensors.reduce((sum, tensor) => sum + places.bytes(tensor), places.tiedBytes);
}
