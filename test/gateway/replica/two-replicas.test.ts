import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Replica } from '../../../src/gateway/replica/replica.js';
import { fakeTokens } from '../../doubles/fake-device.js';
import type { FakeExecutor } from '../../doubles/fake-executor.js';
import { FakeFleet } from '../../support/fake-fleet.js';
import { FAKE_VOCABULARY } from '../../support/fake-gateway.js';

const promptOf = (seed: number) =>
  Array.from({ length: 20 + seed }, (_, i) => FAKE_VOCABULARY.first + ((seed + i) % 40));

let fleet: FakeFleet;
let replicas: readonly [Replica, Replica];

beforeEach(async () => {
  fleet = new FakeFleet([
    { kvBlocks: 200, maxSequences: 4 },
    { kvBlocks: 100, maxSequences: 2 },
  ]);
  replicas = fleet.replicas as unknown as [Replica, Replica];
  await fleet.start();
});
afterEach(() => fleet.stop());

const executor = (replica: number) => fleet.executors[replica] as FakeExecutor;
const generate = (prompt: readonly number[], maxTokens: number) => fleet.generate(prompt, maxTokens);

it('replicas of one process share requests out, each within its own executor’s limits', async () => {
  const answers = Array.from({ length: 12 }, (_, i) => generate(promptOf(i), 30));
  expect(replicas.map(({ active }) => active)).toEqual([6, 6]);
  expect(replicas.map(({ scheduler }) => scheduler?.blocks.capacity)).toEqual([199, 99]);
  for (const [i, answer] of answers.entries()) {
    expect(await answer).toEqual(fakeTokens(promptOf(i), 30, FAKE_VOCABULARY));
  }
  expect(fleet.executors.map(({ failure }) => failure)).toEqual([undefined, undefined]);
  expect(fleet.router.counts).toMatchObject({ running: 0, waiting: 0, kvBlocks: 298, freeKvBlocks: 298, serving: 2 });
});

it('one replica’s executor comes and goes, with other limits, and the other replica knows nothing of it', async () => {
  const release = executor(1).stall();
  const [here, there] = [generate(promptOf(1), 40), generate(promptOf(2), 40)];
  expect(replicas.map(({ active }) => active)).toEqual([1, 1]);
  await expect.poll(() => replicas[1].counts.running).toBe(1);
  await executor(1).stop();
  release();
  expect(await here).toEqual(fakeTokens(promptOf(1), 40, FAKE_VOCABULARY));
  await expect.poll(() => replicas[1].state).not.toBe('serving');
  // All of it goes where somebody serves.
  const meanwhile = [3, 4, 5].map((seed) => generate(promptOf(seed), 10));
  expect(replicas.map(({ active }) => active)).toEqual([3, 1]);
  expect(fleet.router.isReady).toBe(true);
  await Promise.all(meanwhile);

  await fleet.listen(1, 50);
  expect(await there).toEqual(fakeTokens(promptOf(2), 40, FAKE_VOCABULARY));
  expect(replicas.map(({ scheduler }) => scheduler?.blocks.capacity)).toEqual([199, 49]);
  expect(replicas[0].counts).toMatchObject({ replayed: 0, executors: 1 });
  expect(replicas[1].counts.replayed).toBe(1);
  expect(replicas[1].counts.executors).toBeGreaterThan(1);
});

it('a stream does not continue on an executor with other numerics than the one before', async () => {
  executor(0).claims = { arithmetic: 'this' };
  expect(replicas[0].replace()).toBe(true);
  await expect.poll(() => replicas[0].numerics).toBe('this');
  const running = generate(promptOf(1), 400);
  const ended = expect(running).rejects.toMatchObject({ reason: 'ARITHMETIC_CHANGED' });
  await expect.poll(() => replicas[0].counts.steps).toBeGreaterThan(5);
  executor(0).claims = { arithmetic: 'other' };
  expect(replicas[0].replace()).toBe(true);
  await ended;
  expect(await generate(promptOf(2), 10)).toEqual(fakeTokens(promptOf(2), 10, FAKE_VOCABULARY));
});
