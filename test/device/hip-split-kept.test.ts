import { expect, it } from 'vitest';
import { executorsOf } from '../../tools/executors-of.mjs';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { seen } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';
import { connectKeeper } from '../support/stray-writes.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const message = request({
  text: 'the old fox ran to the sea',
  sampling: { temperature: 0.8, seed: 3n },
  stop: { maxTokens: 80, ignoreEos: true },
});

const limits = {
  maxSequences: 4,
  maxStepTokens: 64,
  maxContext: 256,
  kvCacheType: 'f16',
  hasSpare: false,
} as const;

/** Takes the place of a chunk, of another size, as soon as there is a keeper: as if it had no room for the one asked for. */
async function takeChunk(device: number, name: string): Promise<void> {
  for (;;) {
    const [pid] = executorsOf(process.pid);
    try {
      if (pid !== undefined) {
        await (await connectKeeper(pid)).allocate(device, name, 4 << 20);
        return;
      }
    } catch {
      // It has just begun.
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

it.skipIf(missing !== undefined).each([true, false])(
  'a model on two GPUs continues from its KV blocks if they outlive the executor on both: %s',
  async (isKept) => {
    new HipDouble({ memoryBytes: 2 ** 33, devices: 2 }).install();
    const model = writeRandomModel({ type: 'F16', hidden: 128, contextLength: 256 });
    const starting = startTestGateway(model, {
      executor: { spawn: { device: 'hip', gpus: [0, 1], split: 'layer' } },
      ...limits,
    });
    if (!isKept) await takeChunk(1, 'kv');
    const { gateway, client, stop } = await starting;
    try {
      const undisturbed = await generate(client, message);
      const running = generate(client, message);
      const emitted = () => gateway.replica.scheduler?.oldestStep?.slices[0]?.position ?? 0;
      await expect.poll(emitted, { interval: 1 }).toBeGreaterThan(35);
      process.kill(gateway.executorPid() as number, 'SIGKILL');
      expect(seen(await running)).toEqual(seen(undisturbed));
      const { keptTokens, recomputedTokens } = gateway.replica.counts;
      expect(isKept ? recomputedTokens : keptTokens).toBe(0);
    } finally {
      await stop();
    }
  },
);

it.skipIf(missing !== undefined).each(['layer', 'tensor'] as const)(
  'a model on two GPUs, split by %s, finds its KV blocks again after it was unloaded',
  async (split) => {
    new HipDouble({ memoryBytes: 2 ** 33, devices: 2 }).install();
    const model = writeRandomModel({ type: 'F16', hidden: 128, contextLength: 256 });
    const { gateway, client, stop } = await startTestGateway(model, {
      executor: { spawn: { device: 'hip', gpus: [0, 1], split } },
      ...limits,
      kvHostBytes: 1 << 30,
    });
    try {
      const first = await generate(client, message);
      gateway.replica.unloadModel();
      await expect.poll(() => gateway.executorState()).toBe('unloaded');
      expect(seen(await generate(client, message))).toEqual(seen(first));
      const { restoredBlocks, damagedBlocks } = gateway.replica.counts;
      expect(restoredBlocks).toBeGreaterThan(1);
      expect(damagedBlocks).toBe(0);
    } finally {
      await stop();
    }
  },
);
