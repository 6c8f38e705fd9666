import { aligned, defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { type BlockType, blockFormat, isPackedType, PACKED_TYPES, type PackedType, Q8_BLOCK } from './formats.js';

/** The width of packed weights is a multiple of this. */
export const PACKED_WIDTH = 64;

/** True if weights of this format and width can be packed. */
export function canPack(type: BlockType, columns: number): type is PackedType {
  return isPackedType(type) && columns % Math.max(PACKED_WIDTH, blockFormat(type).blockElements) === 0;
}

/** Bytes of one packed row of `columns` weights: those of the file, padded to 16. */
export function packedRowBytes(type: PackedType, columns: number): number {
  const { blockElements, blockBytes } = blockFormat(type);
  return Math.ceil(((columns / blockElements) * blockBytes) / 16) * 16;
}

/** Dimension `row_bytes`: {@link packedRowBytes}. `out · blocks` must be below 2³¹. */
export const repack = (type: PackedType) => {
  const { blockElements, blockBytes } = blockFormat(type);
  return defineKernel({
    name: `repack_${type}`,
    source: 'repack.hip',
    on: 'gpu',
    summary: 'weights from the blocks of their file to planes that GPUs read by 16 bytes',
    arguments: [
      input('source', 'u8', 'out', 'blocks', `${blockBytes}`),
      aligned(16, inout('target', 'u8', 'out', 'row_bytes')),
      i32('out'),
      i32('blocks'),
    ],
    grid: [{ of: `out * blocks * ${blockElements / Q8_BLOCK}`, per: 'block' }],
    multiples: [['row_bytes', '16']],
    tolerance: exact('bits are moved'),
  });
};

export const repackContracts: readonly KernelContract[] = [...PACKED_TYPES.map(repack)];
