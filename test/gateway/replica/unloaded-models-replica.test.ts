import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Replica } from '../../../src/gateway/replica/replica.js';
import { fakeTokens } from '../../doubles/fake-device.js';
import type { FakeExecutor } from '../../doubles/fake-executor.js';
import { FakeFleet } from '../../support/fake-fleet.js';
import { FAKE_VOCABULARY } from '../../support/fake-gateway.js';

const promptOf = (seed: number) => Array.from({ length: 20 }, (_, i) => FAKE_VOCABULARY.first + ((seed + i) % 40));
const tokensOf = (seed: number) => fakeTokens(promptOf(seed), 30, FAKE_VOCABULARY);
const TOKENS = tokensOf(0);

let fleet: FakeFleet;
let replica: Replica;
let executor: FakeExecutor;
beforeEach(async () => {
  fleet = new FakeFleet([{ kvBlocks: 200, maxSequences: 4 }]);
  await fleet.start();
  [replica, executor] = [fleet.replicas[0] as Replica, fleet.executors[0] as FakeExecutor];
  executor.claims = { arithmetic: 'this' };
  expect(replica.replace()).toBe(true);
  await expect.poll(() => replica.numerics).toBe('this');
});
afterEach(() => fleet.stop());

const generate = (seed = 0) => fleet.generate(promptOf(seed), 30);
async function unloaded(): Promise<void> {
  await expect.poll(() => replica.unloadModel()).toBe(true);
  await expect.poll(() => replica.state).toBe('unloaded');
}

it('keeps its numerics, finds no blocks, and goes on where it was', async () => {
  expect(await generate()).toEqual(TOKENS);
  await unloaded();
  expect([replica.numerics, replica.freeSlots, replica.canServe]).toEqual(['this', 0, true]);
  const before = replica.counts.cachedTokens;
  expect(await generate()).toEqual(TOKENS);
  expect(replica.counts.cachedTokens).toBe(before);
  expect(replica.counts).toMatchObject({ replayed: 0, running: 0, freeKvBlocks: 199 });
});

it('is not unloaded while anything is under way, or waits', async () => {
  const release = executor.stall();
  const answers = Array.from({ length: 6 }, (_, seed) => generate(seed));
  // Both steps that may be under way are the first one's.
  await expect.poll(() => [replica.counts.running, replica.counts.waiting]).toEqual([1, 5]);
  expect(replica.unloadModel()).toBe(false);
  release();
  for (const [seed, answer] of answers.entries()) expect(await answer).toEqual(tokensOf(seed));
  await unloaded();
});

it('is not loaded with other numerics, until it is replaced on purpose', async () => {
  await unloaded();
  executor.claims = { arithmetic: 'other' };
  await expect(generate()).rejects.toMatchObject({ reason: 'DEVICE_UNAVAILABLE' });
  expect([replica.state, replica.canServe]).toEqual(['failed', false]);
  await expect(generate()).rejects.toMatchObject({ reason: 'DEVICE_UNAVAILABLE' });
  // There is nothing to be replaced: the next may be another.
  expect(replica.replace()).toBe(false);
  await expect.poll(() => replica.state).toBe('unloaded');
  expect(await generate()).toEqual(TOKENS);
  expect(replica.numerics).toBe('other');
});

it('is loaded for nobody once it takes no more', async () => {
  await unloaded();
  const { executors } = replica.counts;
  replica.stopAdmission();
  await expect(generate()).rejects.toMatchObject({ reason: 'SHUTTING_DOWN' });
  expect([replica.state, replica.counts.executors]).toEqual(['unloaded', executors]);
});
