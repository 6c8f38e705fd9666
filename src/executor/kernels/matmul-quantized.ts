import { aligned, defineKernel, i32, inout, input, type KernelContract, rowsApart } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { BLOCK_TYPES, type BlockType, blockFormat, isPackedType, Q8_BLOCK, Q8_BLOCK_BYTES } from './formats.js';
import { ORDER } from './reduction-order.js';

/** Rows of the weight and of x that one block multiplies. */
export const MATMUL_QUANTIZED_ROWS = 32;
export const MATMUL_QUANTIZED_TOKENS = 128;

export const matmulQuantized = (type: BlockType) => {
  const { blockElements, blockBytes } = blockFormat(type);
  return defineKernel({
    name: `matmul_${type}`,
    source: 'matmul_quantized.hip',
    // Rows of whole K blocks can always be packed for a GPU, and all for Hopper's; those that tables name never are.
    on: isPackedType(type) && blockElements > Q8_BLOCK ? 'host' : ['host', 'portable'],
    summary: 'y[t][n] = sum_k weight[n][k] * x[t][k], weight in blocks, x as quantize_q8 makes it',
    arguments: [
      input('weight', 'u8', 'out', 'blocks', `${blockBytes}`),
      aligned(4, input('x', 'u8', 'rows', 'blocks', `${(blockElements / Q8_BLOCK) * Q8_BLOCK_BYTES}`)),
      rowsApart('y_stride', inout('y', 'f32', 'rows', 'out')),
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('blocks'),
      i32('y_stride'),
    ],
    grid: [
      { of: 'out', per: MATMUL_QUANTIZED_ROWS },
      { of: 'rows', per: MATMUL_QUANTIZED_TOKENS },
    ],
    order: ORDER.dot,
    tolerance: roundings(
      '(in / 128 + 16) · 2⁻²⁴ · (sum |scale · quant · x| + sum |minimum · x|): sums of quants are exact; each of eight or ' +
        'more partial sums takes two roundings a block of 32, each term three more and the last sum six',
      (sizes) => (sizes.blocks! * blockElements) / 128 + 16,
    ),
  });
};

export const matmulQuantizedContracts: readonly KernelContract[] = [...BLOCK_TYPES.map(matmulQuantized)];
