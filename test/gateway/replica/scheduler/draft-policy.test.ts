import { expect, it } from 'vitest';
import { DraftPolicy } from '../../../../src/gateway/replica/scheduler/draft-policy.js';
import type { BlockTimes } from '../../../../src/gateway/replica/scheduler/prediction-cost.js';

const NOTHING = { right: 0, tried: 0 };

/** A step of so many rows, a third of whose time is that of a row. */
function observe(drafts: DraftPolicy, rows: number, block?: BlockTimes): void {
  const us = 2000 + 1000 * rows;
  drafts.observe(rows, block === undefined ? [] : [1], { stepUs: us, rowsUs: us, block });
}

/** A policy for a device on which a row costs a third of a step of one. */
function policy(running = 1, spareLogits = 64, coming = 0): DraftPolicy {
  const drafts = new DraftPolicy(() => ({ running, predicting: running, spareLogits, coming }));
  for (let i = 0; i < 40; i++) observe(drafts, 1 + (i % 5));
  return drafts;
}

it('begins a sequence with the acceptance of all others, for each method by itself', () => {
  const drafts = policy();
  expect(drafts.worth('lookup', NOTHING)).toBeGreaterThan(0);
  for (let i = 0; i < 500; i++) {
    drafts.learn('lookup', 0, 3);
    drafts.learn('mtp', 3, 3);
  }
  expect([drafts.worth('lookup', NOTHING), drafts.worth('mtp', NOTHING)]).toEqual([0, 7]);
});

it('follows the sequence itself, whatever others are like', () => {
  const drafts = policy();
  for (let i = 0; i < 500; i++) drafts.learn('lookup', 3, 3);
  expect(drafts.worth('lookup', { right: 0, tried: 30 })).toBe(0);
  for (let i = 0; i < 500; i++) drafts.learn('lookup', 0, 3);
  expect(drafts.worth('lookup', { right: 28, tried: 30 })).toBeGreaterThan(2);
});

it('drafts fewer tokens the more sequences there are, and any number before steps were measured', () => {
  const counts = [1, 4, 16, 64].map((running) => policy(running).worth('lookup', { right: 20, tried: 30 }));
  expect(counts).toEqual([...counts].sort((a, b) => b - a));
  expect(counts.at(-1)).toBe(0);
  const unmeasured = new DraftPolicy(() => ({ running: 64, predicting: 64, spareLogits: 64, coming: 0 }));
  expect(unmeasured.worth('lookup', NOTHING)).toBe(7);
});

it('has new sequences predicted while that pays, and else one of 16', () => {
  const drafts = policy();
  for (let i = 0; i < 40; i++) observe(drafts, 1, { blockUs: 300, waitUs: 300 });
  expect([drafts.predictsNext, drafts.beginPrediction(), drafts.beginPrediction()]).toEqual([true, true, true]);
  for (let i = 0; i < 500; i++) drafts.learn('mtp', 0, 3);
  const begun = Array.from({ length: 96 }, () => drafts.beginPrediction());
  expect(begun.flatMap((begins, i) => (begins ? [i] : []))).toEqual([15, 31, 47, 63, 79, 95]);
  for (let i = 0; i < 500; i++) drafts.learn('mtp', 3, 3);
  expect(drafts.beginPrediction()).toBe(true);
});

it.each([
  [64, 7],
  [5, 3],
  [2, 1],
  [1, 1],
  [0, 0],
])('shares %i spare rows of logits among two sequences: %i draft tokens', (spareLogits, expected) => {
  const drafts = policy(2, spareLogits);
  for (let i = 0; i < 500; i++) drafts.learn('mtp', 3, 3);
  expect(drafts.worth('mtp', { right: 30, tried: 30 })).toBe(expected);
});

it('has no sequence predicted where it would not pay with those that come with it', () => {
  const begins = [0, 40].map((coming) => {
    const drafts = policy(1, 64, coming);
    for (let i = 0; i < 40; i++) observe(drafts, 1, { blockUs: 300, waitUs: 300 });
    return drafts.predictsNext;
  });
  expect(begins).toEqual([true, false]);
});
