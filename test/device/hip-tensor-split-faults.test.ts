import { describe, expect, it } from 'vitest';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import { PATIENCE_MS } from '../../src/executor/layers/all-reduce.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevices } from '../../src/executor/load/open-device.js';
import { attendedMs } from '../support/attended-time.js';
import { restoreEnvironment } from '../support/environment.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const PROMPT = 12;

describe.skipIf(missing !== undefined)('a graph of one rank that is not launched', () => {
  it('fails its step by name, the other rank waits no longer, and no step after it fails', async () => {
    const double = new HipDouble({ devices: 2, fault: 'error=1@graph:3' });
    double.install();
    const devices = openDevices({ kind: 'hip', gpus: [0, 1] });
    const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 16, kvMemoryBytes: 0, fingerprint: '' };
    const path = writeRandomModel({ type: 'F16', hidden: 128, contextLength: 64 });
    const how = { path, kvCacheType: 'f16', split: 'tensor', ...limits } as const;
    const model = await loadModel(devices, how, () => undefined);
    const hashes = () => logitsHashes(devices[1]!, model, PROMPT, 0, PROMPT);
    const refused = /^device [01]: cannot launch a graph: hipErrorInvalidValue/;
    expect(await attendedMs(() => expect(hashes()).rejects.toThrow(refused))).toBeLessThan(PATIENCE_MS / 2);
    const right = await hashes();
    expect(await hashes()).toEqual(right);
    model.release();
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  });
});

describe.skipIf(missing !== undefined)('when one of the GPUs that have shards fails while a stream runs', () => {
  const model = writeRandomModel({ type: 'F16', hidden: 128 });
  const message = request({ text: 'the fox', sampling: { temperature: 0 }, stop: { maxTokens: 16, ignoreEos: true } });
  const spawn = { device: 'hip', split: 'tensor', gpus: [0, 1] } as const;
  const options = { executor: { spawn }, maxSequences: 2, maxStepTokens: 32, maxContext: 64, stepTimeoutMs: 4000 };

  /** Tokens of the request on devices with this fault, and how many executors it took. */
  async function run(fault?: string): Promise<{ tokenIds: readonly number[]; executors: number }> {
    const double = new HipDouble({ devices: 2, ...(fault !== undefined && { fault }) });
    const before = { ...process.env };
    double.install();
    if (fault === undefined) delete process.env.ROCMFORGE_DOUBLE_FAULT;
    try {
      const server = await startTestGateway(model, options);
      try {
        const first = server.gateway.executorPid();
        const { tokenIds } = await generate(server.client, message);
        return { tokenIds, executors: server.gateway.executorPid() === first ? 1 : 2 };
      } finally {
        await server.stop();
      }
    } finally {
      restoreEnvironment(before);
    }
  }

  // Each generated token but the first is a graph on both.
  const AT = 11;
  it.each([
    ['an illegal address', `illegal@graph:${AT}`],
    ['a kernel that never ends', `hang@graph:${AT}`],
    ['a memory access fault that aborts the process', `abort@graph:${AT}`],
  ])('%s: another executor continues with the same tokens', async (_name, fault) => {
    const undisturbed = await run();
    expect(undisturbed.executors).toBe(1);
    expect(await run(fault)).toEqual({ tokenIds: undisturbed.tokenIds, executors: 2 });
  });
});
