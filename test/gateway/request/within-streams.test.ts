import { expect, it } from 'vitest';
import { runWithin } from '../../../src/gateway/request/within-streams.js';
import { RocmForgeError } from '../../../src/shared/errors.js';

const never = new AbortController().signal;

it('runs as many at once as may begin, and gives the results in order', async () => {
  const free = 3;
  let running = 0;
  let most = 0;
  const items = Array.from({ length: 20 }, (_, i) => i);
  const results = await runWithin(items, { most: 8, mayBegin: () => running < free, signal: never }, async (item) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, (item * 7) % 5));
    running -= 1;
    return 2 * item;
  });
  expect(results).toEqual(items.map((item) => 2 * item));
  expect(most).toBe(free);
});

it('begins the first at once, whatever else there is, and fails by its error', async () => {
  const full = new RocmForgeError('QUEUE_FULL', 'many wait already');
  const begun: number[] = [];
  const run = async (item: number) => {
    begun.push(item);
    throw full;
  };
  await expect(runWithin([1, 2], { most: 2, mayBegin: () => false, signal: never }, run)).rejects.toBe(full);
  expect(begun).toEqual([1]);
});

it('waits for its turn with the others, where nothing of it runs', async () => {
  let asked = 0;
  const mayBegin = () => ++asked % 3 === 0;
  expect(await runWithin([1, 2, 3], { most: 3, mayBegin, signal: never }, async (item) => item)).toEqual([1, 2, 3]);
  expect(asked).toBeGreaterThanOrEqual(6);
});

it('waits no longer when its client has disconnected', async () => {
  const controller = new AbortController();
  const all = runWithin([1, 2, 3], { most: 3, mayBegin: () => false, signal: controller.signal }, async (item) => item);
  controller.abort();
  expect(await all).toEqual([1, 2, 3]);
});
