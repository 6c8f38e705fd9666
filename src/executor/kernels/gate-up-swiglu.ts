import { aligned, defineKernel, i32, inout, input, type KernelContract, variants } from '../device/contract.js';
import { exact, roundings, stored } from '../device/tolerance.js';
import {
  FLOAT_TYPES,
  type FloatType,
  PACKED_TYPES,
  type PackedType,
  Q8_BLOCK,
  Q8_BLOCK_BYTES,
  TILE_TYPES,
  type TileType,
} from './formats.js';
import type { Launch, LaunchCondition, Rows, ValuesOf } from './launch-plan.js';
import { MATMUL_TOKENS } from './matmul.js';
import { PACKED_ROWS, PACKED_TOKENS, type PackedRows, packedInfix, rowsAtOnce } from './matmul-packed.js';
import {
  TILE_INPUT_MULTIPLE,
  TILE_VARIANT_NAMES,
  TILE_VARIANTS,
  type TileVariant,
  tileSuffix,
  tileVariantRows,
} from './matmul-tile.js';
import { ORDER } from './reduction-order.js';

export const gateUpSwigluTile = variants((type: TileType, form: TileVariant) =>
  defineKernel({
    name: `gate_up_swiglu_tile_${tileSuffix(form, type)}`,
    source: form === 'few' ? 'twins/gate_up_swiglu_tile_few.hip' : 'gate_up_swiglu_tile.hip',
    on: 'portable',
    summary: 'y[t][n] = silu(gate[n] · x[t]) * (up[n] · x[t]) in 16 bits',
    arguments: [
      aligned(16, input('weight', type, '2', 'ffn', 'hidden')),
      aligned(16, input('x', type, 'rows', 'hidden')),
      inout('y', type, 'rows', 'ffn'),
      input('tokens', 'i32', '1'),
      i32('ffn'),
      i32('hidden'),
    ],
    grid: [
      { of: 'rows', per: TILE_VARIANTS[form].tokens },
      { of: 'ffn', per: form === 'few' ? TILE_VARIANTS.few.rows : TILE_VARIANTS[form].rows / 2 },
    ],
    multiples: [['hidden', `${TILE_INPUT_MULTIPLE}`]],
    order: ORDER.tile,
    tolerance: stored(
      type,
      roundings(
        '(hidden / 16 + 32) · 2⁻²⁴ · (1.1 · sum |gate · x| · |up| + |silu| · sum |up · x|): the error of each dot ' +
          'product times the other factor; silu changes by at most 1.1 times its argument’s change',
        ({ hidden }) => hidden! / 16 + 32,
      ),
    ),
  }),
);

export const gateUpSwiglu = variants((type: FloatType) =>
  defineKernel({
    name: `gate_up_swiglu_${type}`,
    source: 'twins/gate_up_swiglu.hip',
    summary: 'y[t][n] = silu(gate[n] · x[t]) * (up[n] · x[t])',
    arguments: [
      input('weight', type, '2', 'ffn', 'hidden'),
      input('x', 'f32', 'rows', 'hidden'),
      inout('y', 'f32', 'rows', 'ffn'),
      input('tokens', 'i32', '1'),
      i32('ffn'),
      i32('hidden'),
    ],
    grid: [
      { of: 'ffn', per: 'waves' },
      { of: 'rows', per: MATMUL_TOKENS },
    ],
    order: ORDER.dot,
    tolerance: roundings(
      '(hidden / 32 + 40) · 2⁻²⁴ · (1.1 · sum |gate · x| · |up| + |silu| · sum |up · x|): the error of each dot ' +
        'product times the other factor; silu changes by at most 1.1 times its argument’s change',
      ({ hidden }) => hidden! / 32 + 40,
    ),
  }),
);

/** Dimension `row_bytes`: {@link packedRowBytes}; `ffn_blocks`: ffn / 32. `blocks` are of 32 elements, and `ffn` is a multiple of 32. */
export const gateUpSwigluPacked = variants((type: PackedType, rows: PackedRows = 'several') =>
  defineKernel({
    name: `gate_up_swiglu_packed_${packedInfix(rows)}${type}`,
    source: 'twins/gate_up_swiglu_packed.hip',
    summary: 'y[t] = silu(gate · x[t]) * (up · x[t]), quantized as quantize_q8 does',
    arguments: [
      aligned(16, input('gate', 'u8', 'ffn', 'row_bytes')),
      aligned(16, input('up', 'u8', 'ffn', 'row_bytes')),
      aligned(16, input('x', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)),
      aligned(4, inout('y', 'u8', 'rows', 'ffn_blocks', `${Q8_BLOCK_BYTES}`)),
      input('tokens', 'i32', '1'),
      i32('ffn'),
      i32('blocks'),
    ],
    grid: [
      { of: 'ffn', per: Q8_BLOCK },
      { of: 'rows', per: rowsAtOnce(rows) },
    ],
    multiples: [...PACKED_ROWS, ['ffn', `${Q8_BLOCK}`]],
    offsets32: [`${PACKED_TOKENS} * blocks * ${Q8_BLOCK_BYTES}`],
    order: ORDER.packed,
    tolerance: exact('the very bits of matmul_packed, swiglu and quantize_q8'),
  }),
);

/** Forms in which one launch of gate, up and SwiGLU is faster than one of each. */
const FASTER_TOGETHER: readonly TileVariant[] = ['some', 'many'];

/**
 * Gate, up and SwiGLU of float weights in one launch, in the steps where that is the faster: for few rows two launches are
 * (82 and 61 µs for 28,672 × 4,096 on an H200). Of packed weights one launch was slower at any number (docs/benchmarks.md).
 */
export function launchGateUpSwigluTile(
  launch: Launch,
  type: TileType,
  rows: Rows,
  values: Omit<ValuesOf<ReturnType<typeof gateUpSwigluTile>>, 'tokens'>,
): void {
  for (const form of FASTER_TOGETHER) {
    const condition = tileVariantRows(rows, form, 2 * values.ffn);
    launch(gateUpSwigluTile(type, form), { ...values, tokens: rows.present }, { rows: rows.count }, condition);
  }
}

/** The steps in which {@link launchGateUpSwigluTile} launches nothing. */
export function gateUpApart(rows: Rows, ffn: number): LaunchCondition {
  return tileVariantRows(rows, 'few', 2 * ffn);
}

export const gateUpSwigluContracts: readonly KernelContract[] = [
  ...TILE_TYPES.flatMap((type) => TILE_VARIANT_NAMES.map((form) => gateUpSwigluTile(type, form))),
  ...FLOAT_TYPES.map(gateUpSwiglu),
  ...PACKED_TYPES.flatMap((type) => [gateUpSwigluPacked(type, 'one'), gateUpSwigluPacked(type)]),
];
