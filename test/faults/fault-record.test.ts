import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { describeFault, type Fault, readFaults } from '../../src/shared/fault-log.js';
import { readFaultRecord } from '../../src/shared/fault-record.js';
import { rocmforge } from '../support/command-line.js';
import { restoreEnvironment } from '../support/environment.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

/** Every kernel of a forward pass that one step of the random model launches, in short. */
const FORWARD_KERNEL =
  /^(slot_write|embedding_gather|rms_norm|matmul|rope_kv_append|attention|swiglu|gate_up|quantize|residual_add|gather_rows|penalties|logit_bias|token_history|top_k|top_p|min_p|sample|argmax|log_softmax)/;

/** Runs a stream, lets `disturb` end the executor, and returns the fault that was recorded when the stream has ended. */
async function faultOf(
  options: Partial<GatewayOptions>,
  model: string,
  promptTokens: number,
  disturb: (server: TestGateway) => Promise<void>,
): Promise<{ fault: Fault; tokens: readonly number[]; undisturbed: readonly number[] }> {
  const server = await startTestGateway(model, { ...options });
  try {
    const tokens = Array.from({ length: promptTokens }, (_, i) => 3 + ((i * 31) % 250));
    const message = request({ tokens, sampling: { temperature: 0 }, stop: { maxTokens: 24, ignoreEos: true } });
    const running = generate(server.client, message);
    await disturb(server);
    const { tokenIds } = await running;
    const fault = server.gateway.faults[0] as Fault;
    const undisturbed = await generate(server.client, message);
    return { fault, tokens: tokenIds, undisturbed: undisturbed.tokenIds };
  } finally {
    await server.stop();
  }
}

describe('the record of an executor that was ended in the middle of a step', () => {
  it.each(['SIGKILL', 'SIGABRT', 'SIGSEGV'] as const)('by %s names the step and the kernel', async (signal) => {
    const stateFolder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    // Prompts of 2000 tokens in one step take long enough to be met in it.
    const model = writeRandomModel({ contextLength: 2048, layers: 24 });
    const { fault, tokens, undisturbed } = await faultOf(
      { stateFolder, maxStepTokens: 2048 },
      model,
      2000,
      async (server) => {
        const pid = server.gateway.executorPid() as number;
        // It says itself that it is in the step, which takes a second.
        const socket = server.gateway.executorAddress()?.slice('unix:'.length) as string;
        const record = path.join(path.dirname(socket), 'fault-record');
        await expect.poll(() => readFaultRecord(record)?.launch?.step, { interval: 1 }).toBe(1);
        process.kill(pid, signal);
      },
    );
    expect(tokens).toEqual(undisturbed);
    expect(fault.signal).toBe(signal);
    expect(fault.record?.phase).toBe('serving');
    expect(fault.record?.steps?.[0]).toBe(1);
    expect(fault.record?.launch?.step).toBe(1);
    expect(fault.record?.launch?.kernel).toMatch(FORWARD_KERNEL);
    expect(fault.record?.launch?.grid.every((blocks) => blocks > 0)).toBe(true);
    expect(fault.record?.launch?.arguments.length).toBeGreaterThan(2);
    // A handler saw the signal, but for the one that none can see.
    expect(fault.record?.signal?.name).toBe(signal === 'SIGKILL' ? undefined : signal);

    // It outlives the gateway, and doctor tells of it.
    const kept = { faults: [JSON.parse(JSON.stringify(fault))], unreadable: 0 };
    await expect.poll(() => readFaults(stateFolder)).toEqual(kept);
    const { stdout } = await rocmforge('doctor', '--state-dir', stateFolder);
    expect(stdout).toContain(`fault ${fault.at}`);
    expect(stdout).toContain(`${signal}; serving; in step 1`);
    expect(stdout).toContain(fault.record?.launch?.kernel);
  });

  it('that ended between steps names none', async () => {
    const server = await startTestGateway(writeRandomModel());
    try {
      const message = request({ text: 'the', stop: { maxTokens: 5, ignoreEos: true } });
      await generate(server.client, message);
      await expect.poll(() => server.gateway.replica.scheduler?.stepsInFlight).toBe(0);
      process.kill(server.gateway.executorPid() as number, 'SIGKILL');
      await expect.poll(() => server.gateway.faults).toHaveLength(1);
      expect(server.gateway.faults[0]?.record?.steps).toBeUndefined();
      await generate(server.client, message);
    } finally {
      await server.stop();
    }
  });
});

describe.skipIf(missing !== undefined)('on a HIP device', () => {
  const gpu = { executor: { spawn: { device: 'hip' as const } }, maxSequences: 2, maxStepTokens: 32, maxContext: 64 };
  const model = writeRandomModel({ type: 'F16' });

  const run = async (planted: string) => {
    const before = { ...process.env };
    new HipDouble({ fault: planted }).install();
    try {
      return await faultOf(gpu, model, 8, () => Promise.resolve());
    } finally {
      restoreEnvironment(before);
    }
  };

  it('an illegal address in a captured graph: step, graph, exit code 86 and the driver’s words', async () => {
    const { fault, tokens, undisturbed } = await run('illegal@graph:5');
    expect(tokens).toEqual(undisturbed);
    expect(fault.exitCode).toBe(86);
    expect(fault.record?.error?.sticky).toBe(true);
    expect(fault.record?.error?.message).toContain('hipErrorIllegalAddress');
    expect(fault.record?.launch?.kernel).toBe('graph');
    // Step 1 is the prompt, the fifth graph the sixth step. One more may have been queued behind it, and the device
    // refuses to say that the one before it had ended.
    const [first, last] = fault.record?.steps ?? [0, 0];
    expect([5, 6]).toContain(first);
    expect([6, 7]).toContain(last);
    expect(describeFault(fault)).toMatch(/^exit code 86; serving; in steps? [56].*last launch graph/);
  });

  it('an abort by the runtime: its message is the last line', async () => {
    const { fault, tokens, undisturbed } = await run('abort@graph:5');
    expect(tokens).toEqual(undisturbed);
    expect(fault.signal).toBe('SIGABRT');
    expect(fault.record?.signal?.name).toBe('SIGABRT');
    expect(fault.lastLine).toContain('Memory access fault by GPU node-1');
    // The step before may have run without its result having been taken.
    const [first, last] = fault.record?.steps ?? [];
    expect([5, 6]).toContain(first);
    expect(last).toBeGreaterThanOrEqual(6);
  });
});
