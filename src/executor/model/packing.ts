import type { GgufTensor } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';
import { bufferFrom, type Device, type DeviceBuffer } from '../device/device.js';
import {
  BLOCK_TYPES,
  blockFormat,
  canPack,
  chunksOf,
  FRAGMENT_TILE_ROWS,
  type FragmentType,
  fragmentBytes,
  isBlockType,
  PACKED_TYPES,
  type PackedType,
  packedRowBytes,
  packFragments,
  repack,
  TILE_TYPES,
  tilesOf,
} from '../kernels/index.js';
import { LaunchPlanRecorder } from '../kernels/launch-plan.js';
import type { MatrixLayout } from './matrix.js';

/** Layout in which a device's kernels read matrices that are multiplied. */
export interface Packing {
  readonly layout: MatrixLayout;
  /** Bytes of a tensor packed; undefined for one whose kernels read it as the file has it. */
  bytes(tensor: GgufTensor): number | undefined;
  /**
   * Packs a tensor.
   *
   * @param source its bytes in the file, on the device
   * @param apart bytes from an expert's matrix to the next in the target; default: they follow each other
   * @throws RocmForgeError `MODEL_UNSUPPORTED`: a scale is more than the packed form can hold
   */
  pack(device: Device, tensor: GgufTensor, source: DeviceBuffer, target: DeviceBuffer, apart?: number): Promise<void>;
  /** True if rows of another matrix may follow those of this one, as if they were one. */
  canFollow(tensor: GgufTensor): boolean;
}

/** On GPUs other than Hopper: blocks in planes that lanes read by 16 bytes. */
const planes: Packing = {
  layout: 'planes',
  bytes: (tensor) => {
    const type = typeOf(tensor, PACKED_TYPES);
    const [columns = 0, rows, experts = 1] = tensor.dims;
    if (type === undefined || rows === undefined || !canPack(type, columns)) return undefined;
    return experts * rows * packedRowBytes(type, columns);
  },
  pack: async (device, tensor, source, target, apart) => {
    const type = typeOf(tensor, PACKED_TYPES) as PackedType;
    const [columns = 0, rows = 0, experts = 1] = tensor.dims;
    const parts = apart === undefined ? 1 : experts;
    const out = (rows * experts) / parts;
    const blocks = columns / blockFormat(type).blockElements;
    const recorder = new LaunchPlanRecorder(device, 0);
    for (let part = 0; part < parts; part++) {
      const from = bufferFrom(source, (tensor.bytes / parts) * part);
      const to = bufferFrom(target, (apart ?? 0) * part);
      const values = { source: from, target: to, out, blocks };
      recorder.launch(repack(type), values, { row_bytes: packedRowBytes(type, columns) });
    }
    await recorder.run();
  },
  canFollow: () => true,
};

const FRAGMENT_TYPES: readonly FragmentType[] = [...TILE_TYPES, ...BLOCK_TYPES];

/** On Hopper: fragments in the order in which lanes pass them to matrix instructions. */
const fragments: Packing = {
  layout: 'fragments',
  bytes: (tensor) => {
    const type = typeOf(tensor, FRAGMENT_TYPES);
    const [columns = 0, rows, experts = 1] = tensor.dims;
    return type === undefined || rows === undefined ? undefined : experts * fragmentBytes(type, rows, columns);
  },
  pack: async (device, tensor, source, target, apart) => {
    const type = typeOf(tensor, FRAGMENT_TYPES) as FragmentType;
    const [columns = 0, out = 0, experts = 1] = tensor.dims;
    const overflow = device.upload(Int32Array.of(0));
    try {
      const recorder = new LaunchPlanRecorder(device, 0);
      const all = isBlockType(type)
        ? { ...source, elements: tensor.bytes }
        : { ...source, dtype: type, elements: columns * out * experts };
      const blocks = isBlockType(type) ? { blocks: columns / blockFormat(type).blockElements } : {};
      const dims = { ...blocks, tiles: tilesOf(out), chunks: chunksOf(columns) };
      // Tiles are of one matrix.
      for (let expert = 0; expert < experts; expert++) {
        const from = bufferFrom(all, (all.elements / experts) * expert);
        const to = bufferFrom(target, (apart ?? fragmentBytes(type, out, columns)) * expert);
        recorder.launch(packFragments(type), { source: from, target: to, overflow, out, in: columns }, dims);
      }
      await recorder.run();
      const [flag = 0] = new Int32Array(device.native.read(overflow.address, 4).slice().buffer);
      if (flag !== 1) return;
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `${tensor.name} (${tensor.type}) has a block whose scale is too large for f16, as this GPU's kernels hold it; use another quantization of the model`,
      );
    } finally {
      device.release(overflow);
    }
  },
  // Tiles are of one matrix.
  canFollow: ({ dims }) => (dims[1] ?? 0) % FRAGMENT_TILE_ROWS === 0,
};

export function packingOf(device: Device): Packing {
  return device.deviceClass === 'hopper' ? fragments : planes;
}

function typeOf<T extends string>(tensor: GgufTensor, types: readonly T[]): T | undefined {
  return types.find((candidate) => candidate.toUpperCase() === tensor.type);
}
