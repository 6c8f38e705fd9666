import fc from 'fast-check';
import { expect, it } from 'vitest';
import { deltaNet as contractOf, DELTA_DIMS } from '../../src/executor/kernels/index.js';
import { deltaNet, replayRowsIn, type StateSlice } from './reference/delta_net.js';
import { expectClose } from './support/compare.js';
import { replayRowsOf, slices, sliceTables } from './support/slices.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

type Case = readonly [
  of: readonly StateSlice[],
  shape: readonly [keyHeads: number, times: number, apart: number, isGrouped: boolean],
  start: number,
];

/** Keys and queries of length 1, as the convolution leaves them. */
function inputs(random: Random, rows: number, keyHeads: number, valueHeads: number, dim: number): Float32Array {
  const width = 2 * keyHeads + valueHeads;
  const qkv = fill('normal', rows * width * dim, random);
  for (let head = 0; head < rows * width; head++) {
    if (head % width >= 2 * keyHeads) continue;
    const of = qkv.subarray(head * dim, (head + 1) * dim);
    const length = Math.sqrt(of.reduce((sum, value) => sum + value * value, 0)) || 1;
    for (let i = 0; i < dim; i++) of[i]! /= length;
  }
  return qkv;
}

/** Gates of which each key head's betas stand before its alphas: alphas begin a group further. */
function groupedGates(random: Random, rows: number, keyHeads: number, group: number, apart: number) {
  const valueHeads = keyHeads * group;
  const stride = 2 * valueHeads + apart - 1;
  const both = fill('normal', rows * stride + group, random);
  const close = (which: number) =>
    Float32Array.from({ length: rows * valueHeads }, (_, i) => {
      const [row, head] = [Math.floor(i / valueHeads), i % valueHeads];
      return both[row * stride + (2 * Math.floor(head / group) + which) * group + (head % group)]!;
    });
  return [
    { values: both, close: close(0) },
    { values: both.slice(group), close: close(1) },
  ] as const;
}

async function run(target: Target, dim: number, [of, [keyHeads, times, apart, isGrouped], start]: Case) {
  const random = new Random(start);
  const contract = contractOf(dim);
  const valueHeads = keyHeads * times;
  const rows = of.reduce((sum, slice) => sum + slice.rows, 0);
  const stride = (isGrouped ? 2 : 1) * valueHeads + apart - 1;
  const gates = () => {
    const values = fill('normal', rows * stride, random);
    const close = Float32Array.from({ length: rows * valueHeads }, (_, i) => {
      return values[Math.floor(i / valueHeads) * stride + (i % valueHeads)]!;
    });
    return { values, close };
  };
  const [beta, alpha] = isGrouped ? groupedGates(random, rows, keyHeads, times, apart) : [gates(), gates()];
  const rate = fill('normal', valueHeads, random).map((value) => -Math.abs(value) / 4);
  const bias = fill('normal', valueHeads, random);
  const qkv = inputs(random, rows, keyHeads, valueHeads, dim);
  const states = fill('normal', 2 * of.length * valueHeads * dim * dim, random);
  const replayRows = replayRowsOf(of);
  const replay = replayed(random, replayRows, keyHeads, valueHeads, dim);
  const launched = (cut: readonly StateSlice[], before: Float32Array, first = 0, last = rows, rowsToReplay = replay) =>
    target.launch<typeof contract.arguments>(
      contract,
      {
        qkv: qkv.slice(first * (2 * keyHeads + valueHeads) * dim, last * (2 * keyHeads + valueHeads) * dim),
        beta: beta.values.slice(first * stride, last * stride),
        alpha: alpha.values.slice(first * stride, last * stride),
        rate,
        bias,
        states: before.slice(),
        replay: rowsToReplay,
        slices: sliceTables(cut).slices,
        key_heads: keyHeads,
        value_heads: valueHeads,
        gate_stride: stride,
        grouped: Number(isGrouped),
      },
      { rows: last - first, states: 2 * of.length, slices: cut.length, replay_rows: replayRows },
    );
  const shape = { keyHeads, valueHeads, dim, isGrouped };
  const expected = () =>
    deltaNet(qkv, { beta: beta.close, alpha: alpha.close, rate, bias }, states, of, replayRowsIn(replay, shape), shape);
  /** The rows of the step as replay rows. */
  const asReplay = (): Float32Array => {
    const width = (2 * keyHeads + valueHeads) * dim;
    const columns = 2 * (width + valueHeads);
    const own = new Float32Array(Math.max(replayRows, rows) * columns);
    for (let row = 0; row < rows; row++) {
      own.set(qkv.subarray(row * width, (row + 1) * width), row * columns + width);
      own.set(beta.close.subarray(row * valueHeads, (row + 1) * valueHeads), row * columns + 2 * width);
      own.set(alpha.close.subarray(row * valueHeads, (row + 1) * valueHeads), row * columns + 2 * width + valueHeads);
    }
    return own;
  };
  return { contract, rows, states, launched, expected, asReplay };
}

/** Replay rows as the kernel that keeps them writes them. */
function replayed(random: Random, rows: number, keyHeads: number, valueHeads: number, dim: number): Float32Array {
  const width = (2 * keyHeads + valueHeads) * dim;
  const columns = 2 * (width + valueHeads);
  const replay = fill('normal', rows * columns, random);
  const qkv = inputs(random, rows, keyHeads, valueHeads, dim);
  for (let row = 0; row < rows; row++) replay.set(qkv.subarray(row * width, (row + 1) * width), row * columns + width);
  return replay;
}

const cases = (target: Target, most: number) =>
  fc.tuple(slices(most, target.simulated ? 3 : 9), fc.tuple(size(2), size(3), size(5), fc.boolean()), seed);

onEachTarget('delta_net', (target) => {
  it.each(DELTA_DIMS)('changes a state of %i rows, row by row, and reads it', (dim) =>
    target.check(cases(target, 3), async (generated) => {
      const { contract, rows, states, launched, expected } = await run(target, dim, generated);
      const { y, states: after } = await launched(generated[0], states);
      const wanted = expected();
      const most = rows + Math.max(...generated[0].map((slice) => slice.replayed));
      expectClose(contract, y!, wanted.y, { rows: most });
      expectClose(contract, after!, wanted.states, { rows: most });
    }),
  );

  it.each(DELTA_DIMS)('has the same bits of %i rows however a sequence is cut', (dim) =>
    target.check(
      fc.tuple(cases(target, 1), fills('normal')),
      async ([generated]) => {
        const { rows, states, launched } = await run(target, dim, generated);
        const [{ source, replayed }] = generated[0] as [StateSlice];
        const slice = { first: 0, rows, source, target: source === 0 ? 1 : 0, isBefore: false, replayed, replayRow: 0 };
        const whole = await launched([slice], states);
        let [before, from, to] = [states, slice.source, slice.target];
        const parts: number[] = [];
        for (let row = 0; row < rows; row++) {
          const one = { ...slice, rows: 1, source: from, target: to, replayed: row === 0 ? replayed : 0 };
          const part = await launched([one], before, row, row + 1);
          parts.push(...(part.y as Float32Array));
          before = part.states as Float32Array;
          [from, to] = [to, 1 - to];
        }
        expect(Float32Array.from(parts)).toEqual(whole.y);
        const stateAt = (all: Float32Array, index: number) =>
          all.subarray((index * states.length) / 2, ((index + 1) * states.length) / 2);
        expect(stateAt(before, from as number)).toEqual(stateAt(whole.states as Float32Array, slice.target));
      },
      Math.ceil(target.runs / 4),
    ),
  );

  it.each(DELTA_DIMS)('has the same bits of %i rows where some of them are replayed', (dim) =>
    target.check(
      fc.tuple(cases(target, 1), fc.nat()),
      async ([generated, cut]) => {
        const { rows, states, launched, asReplay } = await run(target, dim, generated);
        const plain = { first: 0, rows, source: 0, target: 1, isBefore: false, replayed: 0, replayRow: 0 };
        const whole = await launched([plain], states);
        // Of a slice all of which was drafted, so many were accepted: the state before them is all that there is.
        const accepted = cut % rows;
        const drafted = await launched([{ ...plain, isBefore: true }], states);
        expect(drafted.y).toEqual(whole.y);
        const size = states.length / 2;
        expect((drafted.states as Float32Array).subarray(size)).toEqual(states.subarray(0, size));
        const rest = { ...plain, rows: rows - accepted, replayed: accepted };
        const replay = await launched([rest], states, accepted, rows, asReplay());
        expect(replay.y).toEqual((whole.y as Float32Array).subarray((accepted * whole.y!.length) / rows));
        expect(replay.states).toEqual(whole.states);
        // Before what is drafted anew the state is the one after the accepted rows.
        const before = await launched([{ ...rest, isBefore: true }], states, accepted, rows, asReplay());
        const prefix = accepted === 0 ? undefined : await launched([{ ...plain, rows: accepted }], states, 0, accepted);
        expect(before.states).toEqual(prefix?.states ?? drafted.states);
      },
      Math.ceil(target.runs / 4),
    ),
  );
});
