import {
  aligned,
  defineKernel,
  i32,
  inout,
  input,
  type KernelContract,
  rowsApart,
  variants,
} from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { TILE_TYPES, type TileType } from './formats.js';
import type { Launch, LaunchCondition, Rows, ValuesOf } from './launch-plan.js';
import { ORDER } from './reduction-order.js';

/**
 * Which form of a linear layer on matrix units to launch. All forms give the same bits; they differ in what is fast:
 * {@link tileVariantRows} says which for how many rows.
 */
export type TileVariant = 'few' | 'some' | 'many';

/** Divisor of `in` of matmul_tile and of `hidden` of gate_up_swiglu_tile; buffers lie at 16-byte borders. */
export const TILE_INPUT_MULTIPLE = 8;

/** Rows of the weight and tokens that a block of each form computes. */
export const TILE_VARIANTS: Readonly<Record<TileVariant, { readonly rows: number; readonly tokens: number }>> = {
  few: { rows: 16, tokens: 16 },
  some: { rows: 32, tokens: 64 },
  many: { rows: 64, tokens: 128 },
};

export const TILE_VARIANT_NAMES: readonly TileVariant[] = ['few', 'some', 'many'];

/**
 * The steps for whose rows a form is the fastest, measured on an H200, when `out` rows of the weight are computed (both
 * parts of a gate and up). Up to 128 tokens a small weight has too few blocks of the many form to fill a device.
 */
export function tileVariantRows({ count }: Rows, form: TileVariant, out: number): LaunchCondition {
  const some = out < 8192 ? 128 : 64;
  if (form === 'few') return { count, atLeast: 0, atMost: 16 };
  return form === 'some' ? { count, atLeast: 17, atMost: some } : { count, atLeast: some + 1 };
}

/** Element type of a weight, and name of a form, as kernels' names end. */
export const tileSuffix = (form: TileVariant, type: TileType) => (form === 'many' ? type : `${form}_${type}`);

/** Order of a sum of `in` products: eight segments in order, each a chain of products. */
const sumRoundings = (inner: number) => inner / 16 + 12;

export const matmulTile = variants((type: TileType, form: TileVariant) =>
  defineKernel({
    name: `matmul_tile_${tileSuffix(form, type)}`,
    source: 'matmul_tile.hip',
    on: 'portable',
    summary: 'y[t][n] = sum_k weight[n][k] * x[t][k], or y[t][n] += that when accumulate is 1',
    arguments: [
      aligned(16, input('weight', type, 'out', 'in')),
      aligned(16, input('x', type, 'rows', 'in')),
      rowsApart('y_stride', inout('y', 'f32', 'rows', 'out')),
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('in'),
      i32('y_stride'),
      i32('accumulate'),
    ],
    grid: [
      { of: 'rows', per: TILE_VARIANTS[form].tokens },
      { of: 'out', per: TILE_VARIANTS[form].rows },
    ],
    multiples: [['in', `${TILE_INPUT_MULTIPLE}`]],
    order: ORDER.tile,
    tolerance: roundings(
      '(in / 16 + 12) · 2⁻²⁴ · (sum |weight · x| + |y|): eight sums of in / 8 terms in order, a product of tiles adds in the hardware’s order',
      (sizes) => sumRoundings(sizes.in!),
    ),
  }),
);

/** y = weight · x, or that added to y, in the fastest form for each number of rows. */
export function launchMatmulTile(
  launch: Launch,
  type: TileType,
  rows: Rows,
  values: Omit<ValuesOf<ReturnType<typeof matmulTile>>, 'tokens'>,
): void {
  for (const form of TILE_VARIANT_NAMES) {
    const condition = tileVariantRows(rows, form, values.out);
    launch(matmulTile(type, form), { ...values, tokens: rows.present }, { rows: rows.count }, condition);
  }
}

export const matmulTileContracts: readonly KernelContract[] = [
  ...TILE_TYPES.flatMap((type) => TILE_VARIANT_NAMES.map((form) => matmulTile(type, form))),
];
