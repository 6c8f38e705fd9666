import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { expect } from 'vitest';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import {
  ExecuteRequest,
  ExecutorServiceClient,
  KvCacheType,
  LoadModelRequest,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { packageVersion } from '../../src/shared/package.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { endProcess, startRocmforge } from './command-line.js';
import { restoreEnvironment } from './environment.js';
import { HipDouble } from './hip-double.js';
import { writeRandomModel } from './random-model.js';

/** Time that a step of {@link hangInLaunch}'s executor may take. */
export const HANG_TIMEOUT_MS = 1000;

const HANGS_AT = 8;

/**
 * Runs an executor on the HIP device of the tests until a launch hangs, and holds it to what it says of its health
 * meanwhile: NOT_SERVING while nothing is loaded, SERVING after it, NOT_SERVING while a launch hangs.
 *
 * @returns milliseconds between the step that hangs and the word of it
 */
export async function hangInLaunch(): Promise<number> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const address = `unix:${path.join(folder, 'executor.sock')}`;
  const before = { ...process.env };
  new HipDouble({ fault: `hang@graph:${HANGS_AT}` }).install();
  const options = ['--listen', address, '--device', 'hip', '--step-timeout-ms', String(HANG_TIMEOUT_MS)];
  const { child } = await startRocmforge(/executor listening/, 'executor', ...options).finally(() => {
    restoreEnvironment(before);
  });
  const client = new ExecutorServiceClient(address, credentials.createInsecure());
  const health = new HealthClient(address, credentials.createInsecure());
  const told: [status: HealthCheckResponse_ServingStatus, atMs: number][] = [];
  const watch = health.watch({ service: '' });
  watch.on('data', ({ status }) => told.push([status, performance.now()]));
  watch.on('error', () => undefined);
  const { SERVING, NOT_SERVING } = HealthCheckResponse_ServingStatus;
  const statuses = () => told.map(([status]) => status);
  try {
    await expect.poll(statuses).toEqual([NOT_SERVING]);
    await new Promise<void>((resolve, reject) => {
      const load = client.loadModel(
        LoadModelRequest.fromPartial({
          path: writeRandomModel({ type: 'F16' }),
          epoch: 1n,
          version: packageVersion,
          kvCacheType: KvCacheType.F16,
          maxContext: 64,
          maxSequences: 2,
          maxStepTokens: 32,
        }),
      );
      load.on('data', () => undefined);
      load.on('error', reject);
      load.on('end', resolve);
    });
    await expect.poll(statuses).toEqual([NOT_SERVING, SERVING]);

    const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
    const stream = client.execute();
    stream.on('error', () => undefined);
    let answers = 0;
    let lastSentAt = 0;
    const step = (stepId: number): void => {
      const open = {
        slot: 0,
        tokenIds: words(1, 270),
        promptTokens: 2,
        blockIds: words(1, 2),
        sampling: encodeSampling(NEUTRAL_SAMPLING),
      };
      const [position, count] = stepId === 1 ? [0, 2] : [stepId, 1];
      const slices = [{ slot: 0, position, count, sample: true }];
      const opens = stepId === 1 ? [open] : [];
      lastSentAt = performance.now();
      stream.write(ExecuteRequest.fromPartial({ stepId: BigInt(stepId), epoch: 1n, opens, slices }));
    };
    stream.on('data', () => {
      answers += 1;
      step(answers + 1);
    });
    step(1);
    await expect.poll(statuses).toEqual([NOT_SERVING, SERVING, NOT_SERVING]);
    expect(answers).toBe(HANGS_AT);
    // Its event loop lives: it answers.
    await new Promise<void>((resolve, reject) => client.getInfo({}, (error) => (error ? reject(error) : resolve())));
    return (told[2]?.[1] ?? 0) - lastSentAt;
  } finally {
    watch.cancel();
    health.close();
    client.close();
    await endProcess(child, 'SIGKILL');
  }
}
