import fc from 'fast-check';
import { expect, it } from 'vitest';
import { mambaScan as contractOf, MAMBA_STATES } from '../../src/executor/kernels/index.js';
import { mambaScan } from './reference/mamba_scan.js';
import { expectClose } from './support/compare.js';
import { type PlainSlice, plainSlices, sliceTables } from './support/slices.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, Random, seed, size } from './support/values.js';

type Case = readonly [
  of: readonly PlainSlice[],
  shape: readonly [groups: number, times: number, parts: number, apart: number],
  start: number,
];

function run(target: Target, state: number, [of, [groups, times, parts, apart], start]: Case) {
  const random = new Random(start);
  const contract = contractOf(state);
  const [heads, dim] = [groups * times, 8 * parts];
  const inner = heads * dim;
  const channels = inner + 2 * groups * state;
  const rows = of.reduce((sum, slice) => sum + slice.rows, 0);
  const stride = inner + apart;
  const apartRows = (columns: number) => {
    const values = fill('normal', rows * stride, random);
    const close = Float32Array.from({ length: rows * columns }, (_, i) => {
      return values[Math.floor(i / columns) * stride + (i % columns)]!;
    });
    return { values, close };
  };
  const [dt, gate] = [apartRows(heads), apartRows(inner)];
  const xbc = fill('normal', rows * channels, random);
  const rate = fill('normal', heads, random).map((value) => -Math.abs(value));
  const [bias, skip] = [fill('normal', heads, random), fill('normal', heads, random)];
  const states = fill('normal', 2 * of.length * inner * state, random);
  const launched = (cut: readonly PlainSlice[], before: Float32Array, first = 0, last = rows) =>
    target.launch<typeof contract.arguments>(
      contract,
      {
        xbc: xbc.slice(first * channels, last * channels),
        dt: dt.values.slice(first * stride, last * stride),
        gate: gate.values.slice(first * stride, last * stride),
        ...{ rate, bias, skip, states: before.slice(), slices: sliceTables(cut).slices },
        ...{ heads, dim, groups, stride },
      },
      { rows: last - first, states: 2 * of.length, slices: cut.length },
    );
  const inputs = { dt: dt.close, gate: gate.close, rate, bias, skip };
  const expected = () => mambaScan(xbc, inputs, states, of, { heads, dim, groups, state });
  return { contract, rows, states, launched, expected };
}

/** Slices that are longer than what a block brings to shared memory at a time. */
const cases = (target: Target, most: number) =>
  fc.tuple(plainSlices(most, target.simulated ? 13 : 18), fc.tuple(size(2), size(2), size(9), size(5)), seed);

onEachTarget('mamba_scan', (target) => {
  it.each(MAMBA_STATES)('changes a state of %i columns, row by row, and reads it', (state) =>
    target.check(
      cases(target, 3),
      async (generated) => {
        const { contract, rows, states, launched, expected } = run(target, state, generated);
        const { y, states: after } = await launched(generated[0], states);
        const wanted = expected();
        expectClose(contract, y!, wanted.y, { rows });
        expectClose(contract, after!, wanted.states, { rows });
      },
      Math.ceil(target.runs / 2),
    ),
  );

  it.each(MAMBA_STATES)('has the same bits of %i columns however a sequence is cut', (state) =>
    target.check(
      cases(target, 1),
      async (generated) => {
        const { rows, states, launched } = run(target, state, generated);
        const [slice] = generated[0] as [PlainSlice];
        const whole = await launched([slice], states);
        let [before, from, to] = [states, slice.source, slice.target];
        const parts: number[] = [];
        for (let row = 0; row < rows; row++) {
          const one = { ...slice, first: 0, rows: 1, source: from, target: to };
          const part = await launched([one], before, row, row + 1);
          parts.push(...(part.y as Float32Array));
          before = part.states as Float32Array;
          [from, to] = [to, 1 - to];
        }
        expect(Float32Array.from(parts)).toEqual(whole.y);
      },
      Math.ceil(target.runs / 8),
    ),
  );
});
