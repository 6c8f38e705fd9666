import { statSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { seen } from '../support/kill-run.js';
import { writeRandomFamily } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const TOKENS = 24;
const message = request({
  text: 'the old fox ran to the sea',
  sampling: { temperature: 0.8, seed: 3n },
  stop: { maxTokens: TOKENS, ignoreEos: true },
});

describe.skipIf(missing !== undefined)('streams of a model with experts in host memory', { timeout: 300_000 }, () => {
  // Room for a keeper’s memory.
  const double = new HipDouble({ memoryBytes: 2 ** 33 });
  double.install();
  const model = writeRandomFamily('qwen3moe', { type: 'F16', layers: 2 });
  let server: TestGateway | undefined;
  afterEach(async () => {
    await server?.stop();
    server = undefined;
  });

  const start = async (cpuExperts: number): Promise<TestGateway> => {
    const limits = { maxSequences: 4, maxStepTokens: 64, maxContext: 128, kvCacheType: 'f16' } as const;
    const options = { ...limits, hasSpare: false, cpuExperts };
    server = await startTestGateway(model, { executor: { spawn: { device: 'hip' } }, ...options });
    return server;
  };
  const bytesIn = () =>
    double.calls().reduce((sum, call) => sum + (call.startsWith('in ') ? Number(call.slice(3)) : 0), 0);

  it('go on after a kill with the same tokens, and nothing is loaded again', async () => {
    const before = bytesIn();
    const { client, gateway } = await start(1);
    const loaded = bytesIn() - before;
    const undisturbed = await generate(client, message);
    const running = generate(client, message);
    const emitted = () => gateway.replica.scheduler?.oldestStep?.slices[0]?.position ?? 0;
    await expect.poll(emitted, { interval: 1 }).toBeGreaterThan(15);
    const atKill = bytesIn();
    process.kill(gateway.executorPid() as number, 'SIGKILL');
    const disturbed: Generated = await running;
    expect(seen(disturbed)).toEqual(seen(undisturbed));
    const { replayed, restoredWeights } = gateway.replica.counts;
    expect([replayed, restoredWeights]).toEqual([1, 0]);
    // Those of the first layer and all that is no expert's went to the GPU, once.
    expect(loaded).toBeLessThan(statSync(model).size);
    expect(bytesIn() - atKill).toBeLessThan(loaded / 2);
  });

  it('a number of layers that the model does not have is refused by name', async () => {
    await expect(start(3)).rejects.toMatchObject({
      reason: 'INVALID_OPTION',
      message: expect.stringContaining('--cpu-experts is 3; the model has 2 layers with routed experts'),
    });
  });
});
