import { describe, expect, it } from 'vitest';
import { restoreEnvironment } from '../support/environment.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

describe.skipIf(missing !== undefined)('when the GPU fails while streams run', () => {
  const model = writeRandomModel({ type: 'F16' });
  const message = request({ text: 'the fox', sampling: { temperature: 0 }, stop: { maxTokens: 24, ignoreEos: true } });
  const gpu = { executor: { spawn: { device: 'hip' as const } }, maxSequences: 2, maxStepTokens: 32, maxContext: 64 };

  /** Tokens of the request on a device with this fault, and how many executors it took. */
  async function run(fault?: string): Promise<{ tokenIds: readonly number[]; executors: number }> {
    const double = new HipDouble(fault === undefined ? {} : { fault });
    const before = { ...process.env };
    double.install();
    if (fault === undefined) delete process.env.ROCMFORGE_DOUBLE_FAULT;
    try {
      const server = await startTestGateway(model, { ...gpu, stepTimeoutMs: 4000 });
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

  it('no memory for the model when it is loaded again: tried once more, and the tokens are the same', async () => {
    const before = { ...process.env };
    // From one of its allocations on.
    const double = new HipDouble({ fault: 'oom@malloc:9+' });
    double.install();
    try {
      const server = await startTestGateway(model, { ...gpu, stepTimeoutMs: 4000 });
      try {
        const undisturbed = await generate(server.client, message);
        double.plant();
        const running = generate(server.client, message);
        process.kill(server.gateway.executorPid() as number, 'SIGKILL');
        // For the next executor alone.
        await expect.poll(() => server.gateway.faults.length, { interval: 5 }).toBe(2);
        double.mend();
        expect((await running).tokenIds).toEqual(undisturbed.tokenIds);
        expect(server.gateway.executorEpoch()).toBe(3);
        expect(server.gateway.faults.map(({ cause }) => cause)[1]).toMatch(/out of device memory/);
        expect(server.gateway.faults[1]?.record?.phase).toBe('loading');
      } finally {
        await server.stop();
      }
    } finally {
      restoreEnvironment(before);
    }
  });

  // Each generated token but the first is a graph.
  const AT = 10;
  it.each([
    ['an illegal address', `illegal@graph:${AT}`],
    ['a launch failure', `error=719@graph:${AT}`],
    ['an uncorrectable memory error', `error=214@graph:${AT}`],
    ['a kernel that never ends', `hang@graph:${AT}`],
    ['a memory access fault that aborts the process', `abort@graph:${AT}`],
    ['a lost device', `lost@graph:${AT}`],
  ])('%s: another executor continues with the same tokens', async (_name, fault) => {
    const undisturbed = await run();
    expect(undisturbed.executors).toBe(1);
    expect(await run(fault)).toEqual({ tokenIds: undisturbed.tokenIds, executors: 2 });
  });
});
