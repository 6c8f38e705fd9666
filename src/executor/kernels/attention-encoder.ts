import { aligned, defineKernel, f32, i32, input, type KernelContract, output } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { HEAD_DIMS, qkvOf } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

/** Rows of one sequence that a block of {@link attentionEncoderTile} takes at most, and the head sizes that it is built for. */
export const ENCODER_TILE_ROWS = 32;
export const ENCODER_TILE_HEAD_DIMS: readonly number[] = [32, 64, 96, 128, 192, 256];

const tolerance = roundings(
  '32 · 2⁻²⁴ · max |v| · (1 + max scale · √(sum (q k)²) + slope · distance): weights sum to 1, a score’s error passes through ' +
    'e^x, and rounding errors of at most 512 terms in order stray by 2 · √256',
  () => 32,
);

const sequenceArguments = [
  input('row_position', 'i32', 'tokens'),
  input('row_end', 'i32', 'tokens'),
  input('slopes', 'f32', 'heads'),
  i32('heads'),
  i32('kv_heads'),
  i32('reach'),
  f32('scale'),
] as const;

/**
 * Attention of an encoder: each row sees its whole sequence, or `reach` positions on each side of its own (0: all). A sequence is in
 * the step as a whole, at consecutive rows from its position 0 on; `row_end` is the row behind its last one. `slopes` are those
 * of ALiBi, Press et al. (2022), or zeros.
 */
export const attentionEncoder = (headDim: number) =>
  defineKernel({
    name: `attention_encoder_d${headDim}`,
    source: 'attention_encoder.hip',
    // GPUs have tiles for the others.
    ...(ENCODER_TILE_HEAD_DIMS.includes(headDim) && { on: 'host' as const }),
    summary:
      'out = softmax(scale · q kᵀ - slope · |distance|) v over the positions of the row’s sequence, or those within reach',
    arguments: [qkvOf(`${headDim}`), output('out', 'f32', 'tokens', 'heads', `${headDim}`), ...sequenceArguments],
    grid: [{ of: 'heads' }, { of: 'tokens' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.sixteens,
    tolerance,
  });

/**
 * attention_encoder of tiles, on GPUs: `[tiles, 2]`, first row and number of rows, which are consecutive positions of one sequence, at
 * most {@link ENCODER_TILE_ROWS}.
 */
export const attentionEncoderTile = (headDim: number) =>
  defineKernel({
    name: `attention_encoder_tile_d${headDim}`,
    source: 'attention_encoder_tile.hip',
    on: 'gpu',
    needsBlock: true,
    summary: 'attention_encoder of tiles of consecutive rows of one sequence',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      aligned(16, output('out', 'f32', 'tokens', 'heads', `${headDim}`)),
      input('tiles', 'i32', 'tiles', '2'),
      ...sequenceArguments,
    ],
    grid: [{ of: 'heads' }, { of: 'tiles' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.rising,
    tolerance,
  });

/** attention_encoder on the CPU, of the same tiles, with the same bits. */
export const attentionEncoderRows = (headDim: number) =>
  defineKernel({
    name: `attention_encoder_rows_d${headDim}`,
    source: 'attention_encoder_rows.hip',
    on: 'host',
    isCpuOnly: true,
    summary: 'attention_encoder of tiles of consecutive rows of one sequence, with the same bits',
    arguments: [
      qkvOf(`${headDim}`),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      input('tiles', 'i32', 'tiles', '2'),
      ...sequenceArguments,
    ],
    grid: [{ of: 'kv_heads' }, { of: 'tiles' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.sixteens,
    tolerance,
  });

export const attentionEncoderContracts: readonly KernelContract[] = [
  ...HEAD_DIMS.map(attentionEncoder),
  ...ENCODER_TILE_HEAD_DIMS.map(attentionEncoderTile),
  ...ENCODER_TILE_HEAD_DIMS.map(attentionEncoderRows),
];
