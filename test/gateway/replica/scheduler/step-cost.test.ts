import { expect, it } from 'vitest';
import { StepCost } from '../../../../src/gateway/replica/scheduler/step-cost.js';

/** Steps of one to eight rows that take so many microseconds. */
function measured(base: number, perRow: number): StepCost {
  const cost = new StepCost();
  for (let i = 0; i < 40; i++) {
    const rows = 1 + ((i * 3) % 8);
    cost.observe(rows, base + perRow * rows);
  }
  return cost;
}

it('finds the line through steps of different rows', () => {
  const { base, perRow } = measured(9000, 40).line!;
  expect(base).toBeCloseTo(9000, 3);
  expect(perRow).toBeCloseTo(40, 3);
});

it('says nothing of a few steps, of steps of one size, and of steps whose duration is not known', () => {
  const cost = new StepCost();
  for (let i = 0; i < 10; i++) cost.observe(1 + i, 100 * i);
  expect(cost.line).toBeUndefined();
  const alike = new StepCost();
  for (let i = 0; i < 100; i++) alike.observe(3, 1000 + i);
  expect(alike.line).toBeUndefined();
  const unknown = new StepCost();
  for (let i = 0; i < 100; i++) unknown.observe(1 + (i % 7), 0);
  expect(unknown.line).toBeUndefined();
  for (const each of [cost, alike, unknown]) expect(each.draftTokensThatPay(1, 0.1, 7)).toBe(7);
});

it('never takes a row for more than a step divided by its rows', () => {
  // Noise: long steps happened to have more rows.
  const cost = new StepCost();
  for (let i = 0; i < 50; i++) cost.observe(1 + (i % 3), [100, 400, 2000][i % 3]!);
  const { base, perRow } = cost.line!;
  expect(base).toBeGreaterThanOrEqual(0);
  expect(perRow).toBeGreaterThan(0);
});

it.each([
  // A row costs little, as on a GPU: many draft tokens pay even where half are wrong.
  { base: 9000, perRow: 40, sequences: 1, acceptance: 0.5, pays: true },
  { base: 9000, perRow: 40, sequences: 1, acceptance: 0.95, pays: true },
  { base: 9000, perRow: 40, sequences: 1, acceptance: 0.004, pays: false },
  // A row costs a quarter of a step, as on a CPU.
  { base: 20_000, perRow: 5000, sequences: 1, acceptance: 0.9, pays: true },
  { base: 20_000, perRow: 5000, sequences: 1, acceptance: 0.15, pays: false },
  // A step of many sequences costs more, and each of its tokens less.
  { base: 9000, perRow: 100, sequences: 64, acceptance: 0.7, pays: true },
  { base: 9000, perRow: 100, sequences: 64, acceptance: 0.3, pays: false },
])(
  'drafting pays: $pays, at $base + $perRow us a row, $sequences sequences and an acceptance of $acceptance',
  (row) => {
    const { base, perRow, sequences, acceptance, pays } = row;
    const count = measured(base, perRow).draftTokensThatPay(sequences, acceptance, 7);
    // The rate by the same model, of every number of draft tokens.
    const rate = (drafts: number): number => {
      let [tokens, isRight] = [sequences, 1];
      for (let i = 0; i < drafts; i++) tokens += isRight *= acceptance;
      return tokens / (base + perRow * (sequences + drafts));
    };
    const best = [0, 1, 2, 3, 4, 5, 6, 7].reduce((one, other) => (rate(other) > rate(one) + 1e-12 ? other : one));
    expect(count).toBe(best);
    expect(count > 0).toBe(pays);
  },
);
