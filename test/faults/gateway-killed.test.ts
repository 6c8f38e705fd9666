import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { InferenceServiceClient } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { request } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

/** Process id of the executor that a gateway started. */
function executorOf(gateway: number): number {
  const found = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .find((pid) => parentOf(Number(pid)) === gateway);
  if (found === undefined) throw new Error(`no child of ${gateway}`);
  return Number(found);
}

/** Undefined when there is no such process, or nothing is left of it but its exit code. */
function parentOf(pid: number): number | undefined {
  try {
    const [, state, parent] = /\) (\S) (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
    return state === 'Z' ? undefined : Number(parent);
  } catch {
    return undefined;
  }
}

describe('a gateway that is killed', () => {
  it.each([
    ['while the executor computes', false],
    ['while the executor is stopped', true],
  ])('%s takes the executor with it', async (_name, stopped) => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const address = `unix:${path.join(folder, 'gateway.sock')}`;
    const args = ['--model', writeRandomModel(), '--listen', address, '--device', 'host', '--step-delay-ms', '5'];
    const { child } = await startRocmforge(/^serving /, 'serve', ...args, '--state-dir', folder);
    const executor = executorOf(child.pid as number);
    const client = new InferenceServiceClient(address, credentials.createInsecure());
    const call = client.generateStream(request({ text: 'the fox', stop: { maxTokens: 400, ignoreEos: true } }));
    call.on('error', () => undefined);
    await new Promise((resolve) => call.once('data', resolve));
    if (stopped) process.kill(executor, 'SIGSTOP');
    expect(parentOf(executor)).toBe(child.pid);
    await endProcess(child, 'SIGKILL');
    await expect.poll(() => parentOf(executor)).toBeUndefined();
    client.close();
  });
});

describe('a gateway that is told to end', () => {
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('by %s lets its streams come to their end', async (signal) => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const address = `unix:${path.join(folder, 'gateway.sock')}`;
    const args = ['--model', writeRandomModel(), '--listen', address, '--device', 'host', '--step-delay-ms', '5'];
    const { child } = await startRocmforge(/^serving /, 'serve', ...args, '--state-dir', folder);
    const client = new InferenceServiceClient(address, credentials.createInsecure());
    const call = client.generateStream(request({ text: 'the', stop: { maxTokens: 60, ignoreEos: true } }));
    let tokens = 0;
    const ended = new Promise<void>((resolve, reject) => call.on('end', resolve).on('error', reject));
    const begun = new Promise<void>((resolve) => call.once('data', () => resolve()));
    call.on('data', ({ event }) => {
      if (event?.$case === 'chunk') tokens += event.value.tokenIds.length;
    });
    await begun;
    const code = endProcess(child, signal);
    await ended;
    client.close();
    expect(tokens).toBe(60);
    expect(await code).toBe(0);
  });
});
