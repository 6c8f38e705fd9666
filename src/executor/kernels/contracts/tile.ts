import { aligned, defineKernel, i32, inout, input, type KernelContract, output, rowsApart } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { exact, roundings, stored } from '../tolerance.js';

/** Element types that matrix units take. */
export type TileType = 'f16' | 'bf16';
/**
 * Which form of a linear layer on matrix units to launch. All forms give the same bits; they differ in what is fast:
 * `tileForm` says which for how many tokens.
 */
export type TileForm = 'few' | 'some' | 'many';

/** What `in` of matmul_tile and `hidden` of gate_up_swiglu_tile must be a multiple of; buffers lie at 16-byte borders. */
export const TILE_INPUT_MULTIPLE = 8;

/** Rows of the weight and tokens that a block of each form computes. */
export const TILE_FORMS: Readonly<Record<TileForm, { readonly rows: number; readonly tokens: number }>> = {
  few: { rows: 16, tokens: 16 },
  some: { rows: 32, tokens: 64 },
  many: { rows: 64, tokens: 128 },
};

export const TILE_FORM_NAMES: readonly TileForm[] = ['few', 'some', 'many'];

/**
 * The numbers of tokens for which a form is the fastest, measured on an H200, when `out` rows of the weight are computed
 * (both parts of a gate and up). Up to 128 tokens a small weight has too few blocks of the many form to fill a device.
 */
export function tileFormTokens(form: TileForm, out: number): { readonly atLeast: number; readonly atMost?: number } {
  const some = out < 8192 ? 128 : 64;
  if (form === 'few') return { atLeast: 0, atMost: 16 };
  return form === 'some' ? { atLeast: 17, atMost: some } : { atLeast: some + 1 };
}

const suffix = (form: TileForm, type: TileType) => (form === 'many' ? type : `${form}_${type}`);

/** Of a sum of `in` products: eight segments in order, each a chain of products. */
const sumRoundings = (inner: number) => inner / 16 + 12;

export const matmulTile = (type: TileType, form: TileForm) =>
  defineKernel({
    name: `matmul_tile_${suffix(form, type)}`,
    source: 'matmul_tile.hip',
    on: 'gpu',
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
      { of: 'rows', per: TILE_FORMS[form].tokens },
      { of: 'out', per: TILE_FORMS[form].rows },
    ],
    multiples: [['in', `${TILE_INPUT_MULTIPLE}`]],
    order: ORDER.tile,
    tolerance: roundings(
      '(in / 16 + 12) · 2⁻²⁴ · (sum |weight · x| + |y|): eight sums of in / 8 terms in order, a product of tiles adds in the hardware’s order',
      (sizes) => sumRoundings(sizes.in!),
    ),
  });

export const gateUpSwigluTile = (type: TileType, form: TileForm) =>
  defineKernel({
    name: `gate_up_swiglu_tile_${suffix(form, type)}`,
    source: form === 'few' ? 'twins/gate_up_swiglu_tile_few.hip' : 'gate_up_swiglu_tile.hip',
    on: 'gpu',
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
      { of: 'rows', per: TILE_FORMS[form].tokens },
      { of: 'ffn', per: form === 'few' ? TILE_FORMS.few.rows : TILE_FORMS[form].rows / 2 },
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
  });

export const convert = (type: TileType) =>
  defineKernel({
    name: `convert_${type}`,
    source: 'convert.hip',
    on: 'gpu',
    summary: 'y = x rounded to 16 bits, to nearest, ties to even',
    arguments: [input('x', 'f32', 'rows', 'in'), aligned(8, output('y', type, 'rows', 'in')), i32('in')],
    grid: [{ of: 'in', per: 1024 }, { of: 'rows' }],
    tolerance: exact('one rounding'),
  });

const types = ['f16', 'bf16'] as const;
const forms = ['few', 'some', 'many'] as const;

/** The linear layer on matrix units. */
export const tileContracts: readonly KernelContract[] = types.flatMap((type) => [
  ...forms.map((form) => matmulTile(type, form)),
  ...forms.map((form) => gateUpSwigluTile(type, form)),
  convert(type),
]);
