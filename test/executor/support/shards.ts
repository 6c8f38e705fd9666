import { expect } from 'vitest';
import { besideHost } from '../../../src/cli/verify/beside-host.js';
import { logitsHashes } from '../../../src/cli/verify/invariance.js';
import type { Device } from '../../../src/executor/device/device.js';
import type { LoadOptions } from '../../../src/executor/load/load-options.js';
import { type LoadedModel, loadModel } from '../../../src/executor/load/loaded-model.js';

const LIMITS = { maxContext: 512, maxSequences: 17, maxStepTokens: 1100, kvMemoryBytes: 0, fingerprint: '' };

/** A model in shards over all devices. */
export const loadShards = (
  path: string,
  on: readonly Device[],
  options: Partial<LoadOptions> = {},
): Promise<LoadedModel> =>
  loadModel(on, { path, kvCacheType: 'f16', split: 'tensor', ...LIMITS, ...options }, () => undefined);

/** Rows at once, and others beside them. */
export type Way = readonly [chunk: number, others: number];

/** One hash in every way. @returns it */
export async function oneHash(model: LoadedModel, ways: readonly Way[], length: number): Promise<readonly string[]> {
  const { device } = model.pipeline.last;
  let first: readonly string[] | undefined;
  for (const [chunk, others] of ways) {
    const hashes = await logitsHashes(device, model, Math.min(chunk, length), others, length);
    first ??= hashes;
    expect(hashes, `chunks of ${chunk} among ${others}`).toEqual(first);
  }
  return first as readonly string[];
}

/** Beside one device it is within the bound of verify, and another order of additions. */
export async function expectNear(path: string, on: readonly Device[]): Promise<void> {
  const { relative, bound } = await besideHost(on, path, { kvCacheType: 'f16', split: 'tensor', threads: 1 });
  console.log(`${on.length} devices: ${relative.toExponential(1)} from one, at most ${bound.toExponential(1)}`);
  expect(relative).toBeGreaterThan(0);
  expect(relative).toBeLessThan(bound);
}
