import { defineKernel, i32, input, type KernelContract, output, variants } from '../device/contract.js';
import { exact, moved } from '../device/tolerance.js';
import {
  BLOCK_TYPES,
  type BlockType,
  blockFormat,
  isBlockType,
  WEIGHT_FLOAT_TYPES,
  type WeightFloatType,
} from './formats.js';
import type { Launch, StepCount, ValuesOf } from './launch-plan.js';
import { slotArguments } from './paged-cache.js';

/** Arguments of embedding_gather except its table. */
export const embeddingArguments = [
  output('y', 'f32', 'tokens', 'hidden'),
  input('row_token', 'i32', 'tokens'),
  input('row_slot', 'i32', 'tokens'),
  ...slotArguments,
  i32('slot_words'),
  i32('hidden'),
] as const;

export const embeddingGather = variants((type: WeightFloatType) =>
  defineKernel({
    name: `embedding_gather_${type}`,
    source: 'embedding_gather.hip',
    summary: 'y[t] = table[token of row t]',
    arguments: [input('table', type, 'vocabulary', 'hidden'), ...embeddingArguments],
    grid: [{ of: 'tokens' }],
    tolerance: moved,
  }),
);

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

/** The rows' tokens, in the form for the table's type. */
export function launchEmbeddingGather(
  launch: Launch,
  type: WeightFloatType | BlockType,
  values: ValuesOf<ReturnType<typeof embeddingGather>>,
  dimensions: Readonly<Record<string, number | StepCount>>,
): void {
  if (isBlockType(type)) {
    const blocks = values.hidden / blockFormat(type).blockElements;
    launch(embeddingGatherQuantized(type), values, { ...dimensions, blocks });
  } else {
    launch(embeddingGather(type), values, dimensions);
  }
}

export const embeddingGatherContracts: readonly KernelContract[] = [
  ...WEIGHT_FLOAT_TYPES.map(embeddingGather),
  ...BLOCK_TYPES.map(embeddingGatherQuantized),
];
