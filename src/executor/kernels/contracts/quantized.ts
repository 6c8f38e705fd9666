import { TENSOR_TYPES } from '../../../shared/gguf/tensor-types.js';
import { aligned, defineKernel, i32, inout, input, type KernelContract, output, rowsApart } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { exact, roundings } from '../tolerance.js';
import { embeddingArguments } from './forward.js';

/** Block formats that weights are multiplied in as the file holds them. */
export const BLOCK_TYPES = ['q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q4_k', 'q5_k', 'q6_k'] as const;
export type BlockType = (typeof BLOCK_TYPES)[number];

export function isBlockType(type: string): type is BlockType {
  return (BLOCK_TYPES as readonly string[]).includes(type);
}

/** Elements that share a scale in quantized activations, and their bytes: quants, scale, two sums (`forge/q8.h`). */
export const Q8_BLOCK = 32;
export const Q8_BLOCK_BYTES = 40;

/** Elements and bytes of one block. */
export function blockFormat(type: BlockType): { readonly blockElements: number; readonly blockBytes: number } {
  return TENSOR_TYPES[type.toUpperCase() as Uppercase<BlockType>];
}

export const quantizeQ8 = defineKernel({
  name: 'quantize_q8',
  source: 'quantize_q8.hip',
  summary: 'y = round(x · 127 / max |x|) and the scale max |x| / 127 of each 32 elements',
  arguments: [
    aligned(16, input('x', 'f32', 'rows', 'in')),
    aligned(4, output('y', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)),
    i32('in'),
  ],
  grid: [{ of: 'in', per: 2048 }, { of: 'rows' }],
  multiples: [['in', `${Q8_BLOCK}`]],
  tolerance: exact('one rounding an operation, the same as the reference rounded to f32'),
});

export const matmulQuantized = (type: BlockType) => {
  const { blockElements, blockBytes } = blockFormat(type);
  return defineKernel({
    name: `matmul_${type}`,
    source: 'matmul_quantized.hip',
    // Rows of whole K blocks can always be packed for a GPU.
    ...(blockElements > Q8_BLOCK && { on: 'host' as const }),
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
      { of: 'out', per: 32 },
      { of: 'rows', per: 128 },
    ],
    order: ORDER.dot,
    tolerance: roundings(
      '(in / 128 + 16) · 2⁻²⁴ · (sum |scale · quant · x| + sum |minimum · x|): sums of quants are exact; each of eight or ' +
        'more partial sums takes two roundings a block of 32, each term three more and the last sum six',
      (sizes) => (sizes.blocks! * blockElements) / 128 + 16,
    ),
  });
};

export const embeddingGatherQuantized = (type: BlockType) => {
  const { blockElements, blockBytes } = blockFormat(type);
  return defineKernel({
    name: `embedding_gather_${type}`,
    source: 'embedding_gather.hip',
    summary: 'y[t] = table[token of row t]',
    arguments: [input('table', 'u8', 'vocabulary', 'blocks', `${blockBytes}`), ...embeddingArguments],
    grid: [{ of: 'tokens' }],
    multiples: [['hidden', `${blockElements}`]],
    tolerance: exact('scale · quant and the minimum are exact in f32: their difference is rounded once'),
  });
};

/** Kernels of weights in block formats. */
export const quantizedContracts: readonly KernelContract[] = [
  quantizeQ8,
  ...BLOCK_TYPES.flatMap((type) => [matmulQuantized(type), embeddingGatherQuantized(type)]),
];
