import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  gateUpSwigluTile as contractOf,
  matmulTile,
  swiglu,
  type TileType,
  type TileVariant,
} from '../../src/executor/kernels/index.js';
import { gateUpSwigluTile } from './reference/gate_up_swiglu_tile.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTileTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const types = fc.constantFrom('f16' as const, 'bf16' as const);
const FORMS: readonly TileVariant[] = ['few', 'some', 'many'];

/** Weights and rows of x; weights are small enough for sums that f16 can hold. */
function operands(
  type: TileType,
  kind: 'normal' | 'zeros' | 'ones' | 'wide',
  counts: readonly number[],
  start: number,
) {
  const [rows, ffn, hidden] = counts as [number, number, number];
  const random = new Random(start);
  const weights = fill(kind === 'wide' ? 'normal' : kind, 2 * ffn * hidden, random).map((w) => w / 32);
  const x = fill(kind, rows * hidden, random).map((value) => (kind === 'wide' ? value / 1024 : value));
  return { weight: encode(type, weights), x: encode(type, x) };
}

async function run(
  target: Target,
  type: TileType,
  form: TileVariant,
  weight: FloatArray,
  x: FloatArray,
  hidden: number,
) {
  const [rows, ffn] = [x.length / hidden, weight.length / hidden / 2];
  const values = { weight, x, y: new Uint16Array(rows * ffn), tokens: Int32Array.of(rows), ffn, hidden };
  const { y } = await target.launch(contractOf(type, form), values, { rows });
  return decode(type, y as FloatArray);
}

onEachTileTarget('gate_up_swiglu_tile', (target) => {
  const forms = FORMS.filter((form) => target.has(contractOf('f16', form)));

  it('is two matmuls and swiglu in one', () =>
    target.check(
      fc.tuple(
        fc.tuple(types, fc.constantFrom(...forms)),
        fc.record({ rows: size(target.simulated ? 20 : 140), ffn: size(90), eighths: size(40) }),
        fills('normal', 'zeros', 'ones', 'wide') as fc.Arbitrary<'normal' | 'zeros' | 'ones' | 'wide'>,
        seed,
      ),
      async ([[type, form], { rows, ffn, eighths }, kind, start]) => {
        const hidden = eighths * 8;
        const { weight, x } = operands(type, kind, [rows, ffn, hidden], start);
        const y = await run(target, type, form, weight, x, hidden);
        const contract = contractOf(type, form);
        expectClose(contract, y, gateUpSwigluTile(decode(type, weight), decode(type, x), ffn, hidden), { hidden });

        const both = await target.launch(
          matmulTile(type, form),
          {
            weight,
            x,
            y: new Float32Array(rows * 2 * ffn),
            tokens: Int32Array.of(rows),
            out: 2 * ffn,
            in: hidden,
            y_stride: 2 * ffn,
            accumulate: 0,
          },
          { rows },
        );
        const unfused = await target.launch(swiglu, { gate_up: both.y as Float32Array, ffn }, { rows });
        // silu may be contracted otherwise in another kernel, which can change how the result rounds to 16 bits.
        const last = type === 'f16' ? 2 ** -10 : 2 ** -7;
        y.forEach((value, i) => {
          expect(Math.abs(value - unfused.y![i]!)).toBeLessThanOrEqual(last * Math.abs(unfused.y![i]!) + 2 ** -24);
        });
      },
    ));

  it('gives a row the same bits in every form, alone and among others', () =>
    target.check(
      fc.tuple(types, fc.record({ rows: size(35), ffn: size(40), eighths: size(40) }), seed),
      async ([type, { rows, ffn, eighths }, start]) => {
        const hidden = eighths * 8;
        const { weight, x } = operands(type, 'normal', [rows, ffn, hidden], start);
        const [first, ...others] = forms;
        const together = await run(target, type, first!, weight, x, hidden);
        for (const form of others) {
          expect(await run(target, type, form, weight, x, hidden)).toEqual(together);
        }
        const row = new Random(start).below(rows);
        for (const form of forms) {
          const alone = await run(target, type, form, weight, x.slice(row * hidden, (row + 1) * hidden), hidden);
          expect(alone).toEqual(together.slice(row * ffn, (row + 1) * ffn));
        }
      },
      Math.min(target.runs, 40),
    ));
});
