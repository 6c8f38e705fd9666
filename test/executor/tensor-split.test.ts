import { describe, expect, it } from 'vitest';
import { besideHost } from '../../src/cli/verify/beside-host.js';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import type { Device } from '../../src/executor/device/device.js';
import type { LoadOptions } from '../../src/executor/load-options.js';
import { type LoadedModel, loadModel } from '../../src/executor/loaded-model.js';
import { openDevice, openDevices } from '../../src/executor/open-device.js';
import { writeRandomModel } from '../support/random-model.js';

const LIMITS = { maxContext: 640, maxSequences: 17, maxStepTokens: 1100, kvMemoryBytes: 0, fingerprint: '' };
const one = openDevice({ kind: 'host', threads: 1 });
const two = openDevices({ kind: 'host', threads: 2, gpus: [0, 1] });
const four = openDevices({ kind: 'host', threads: 4, gpus: [0, 1, 2, 3] });

async function load(path: string, on: readonly Device[], options: Partial<LoadOptions> = {}): Promise<LoadedModel> {
  const split = on.length > 1 ? ({ split: 'tensor' } as const) : {};
  return loadModel(on, { path, kvCacheType: 'f16', ...LIMITS, ...split, ...options }, () => undefined);
}

/** Beside one device it is within the bound of verify. */
async function expectNear(path: string, on: readonly Device[]): Promise<void> {
  const { relative, bound } = await besideHost(on, path, { kvCacheType: 'f16', split: 'tensor', threads: 1 });
  console.log(`${on.length} devices: ${relative.toExponential(1)} from one, at most ${bound.toExponential(1)}`);
  // Another order of additions, and no more.
  expect(relative).toBeGreaterThan(0);
  expect(relative).toBeLessThan(bound);
}

/** One hash however the rows are cut and whoever is beside them. @returns it */
async function oneHash(model: LoadedModel, length: number): Promise<readonly string[]> {
  const { device } = model.pipeline.last;
  const hashes = (chunk: number, others = 0) => logitsHashes(device, model, chunk, others, length);
  const alone = await hashes(length);
  for (const chunk of [1, 17, 100, 500]) expect(await hashes(chunk), `chunks of ${chunk}`).toEqual(alone);
  expect(await hashes(length, 16), 'among 16').toEqual(alone);
  expect(await hashes(100, 16), 'chunks of 100 among 16').toEqual(alone);
  return alone;
}

describe('a llama split into shards', () => {
  it.each([
    ['two', two],
    ['four', four],
  ])('over %s devices has one hash, near what one device computes', async (_count, devices) => {
    const path = writeRandomModel({ type: 'F16', hidden: 256, contextLength: 640 });
    const split = await load(path, devices);
    try {
      expect(split.pipeline.stages.map(({ device }) => device)).toEqual(devices);
      await oneHash(split, INVARIANCE_PROMPT);
    } finally {
      split.release();
    }
    await expectNear(path, devices);
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  });
});
