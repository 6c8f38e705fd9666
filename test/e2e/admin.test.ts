import { type ChildProcess, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newToken } from '../../src/gateway/trust/tokens.js';
import { AdminServiceClient } from '../../src/shared/generated/rocmforge/admin/v1/admin.js';
import { InferenceServiceClient } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { endProcess, rocmforge, startRocmforge } from '../support/command-line.js';
import { request } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const at = (name: string) => `unix:${path.join(folder, name)}`;
const [ADMIN, PUBLIC] = [at('admin.sock'), at('public.sock')];
const SECRETS = { kwargs: 'orchid-kwargs', prompt: 'orchid', hub: 'hf_orchidhubtoken' };
const { token, line } = newToken('tester');
let gateway: ChildProcess;
let log = '';

beforeAll(async () => {
  const tokens = path.join(folder, 'tokens');
  writeFileSync(tokens, `${line}\n`);
  Object.assign(process.env, { HF_TOKEN: SECRETS.hub });
  ({ child: gateway } = await startRocmforge(
    /^serving the admin API on unix:/,
    ...['serve', '--model', writeRandomModel(), '--listen', PUBLIC, '--admin-listen', ADMIN, '--token-file', tokens],
    ...['--max-sequences', '1', '--step-delay-ms', '20', '--no-spare', '--state-dir', path.join(folder, 'state')],
    ...['--chat-template-kwargs', JSON.stringify({ secret: SECRETS.kwargs })],
    ...['--otlp-endpoint', 'http://user:orchidpassword@127.0.0.1:9/x'],
  ));
  gateway.stderr?.on('data', (data) => {
    log += data;
  });
});
afterAll(() => endProcess(gateway));

const admin = (...args: string[]) => rocmforge('admin', '--address', ADMIN, ...args);
const settings = async (...args: string[]) => {
  const { code, stdout, stderr } = await admin('--json', ...args);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout);
};

/** A stream that is under way for a while; resolves with how it ended. */
function longStream(): { readonly ended: Promise<string>; cancel(): void } {
  const client = new InferenceServiceClient(PUBLIC, credentials.createInsecure());
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${token}`);
  const call = client.generateStream(
    request({ text: `the ${SECRETS.prompt} fox`, stop: { maxTokens: 400, ignoreEos: true } }),
    metadata,
  );
  call.on('data', () => undefined);
  const ended = new Promise<string>((resolve) => {
    call.on('error', (error) => resolve(errorInfo(error as never)?.reason ?? error.message));
    call.on('end', () => resolve('ended'));
  }).finally(() => client.close());
  return { ended, cancel: () => call.cancel() };
}

describe('who operates a gateway', () => {
  it('is served on a file of its owner’s alone', () => {
    expect(statSync(path.join(folder, 'admin.sock')).mode & 0o777).toBe(0o600);
  });

  it.each(['127.0.0.1:0', '0.0.0.0:9999', 'localhost'])('is not served at %s', async (address) => {
    const args = ['--model', writeRandomModel(), '--listen', at('x.sock'), '--admin-listen', address];
    const { code, stderr } = await rocmforge('serve', ...args);
    expect(code).toBe(1);
    expect(stderr).toMatch(/INVALID_OPTION: --admin-listen .*: only socket files are allowed, unix:PATH/);
  });

  it('is not served where inference is', async () => {
    const client = new AdminServiceClient(PUBLIC, credentials.createInsecure());
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${token}`);
    const error = await new Promise<{ code: number }>((resolve) =>
      client.getSettings({}, metadata, (told) => resolve(told as { code: number })),
    );
    client.close();
    expect(error.code).toBe(12);
  });

  it('changes the log level of all loggers, and hears of it in the log', async () => {
    expect(await settings()).toEqual({
      logLevel: 'info',
      maxQueuedRequests: 1024,
      maxQueuedTokens: 1 << 20,
      maxQueuedRequestsPerPeer: 256,
    });
    expect(await settings('--log-level', 'silent')).toMatchObject({ logLevel: 'silent' });
    log = '';
    await settings('--max-queued-tokens', '77777');
    const stream = longStream();
    stream.cancel();
    await stream.ended;
    expect(log).toBe('');
    expect(await settings('--log-level', 'info')).toMatchObject({ logLevel: 'info', maxQueuedTokens: 77_777 });
    await expect.poll(() => log).toContain('changed settings (admin request)');
  });

  it('changes how much may wait, for requests that come from then on', async () => {
    const running = longStream();
    const waiting = [longStream(), longStream()];
    const began = Date.now();
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(await settings('--max-queued-requests', '1')).toMatchObject({ maxQueuedRequests: 1 });
    expect(await longStream().ended).toBe('QUEUE_FULL');
    expect(await settings('--max-queued-requests', '1024')).toMatchObject({ maxQueuedRequests: 1024 });
    const later = longStream();
    await new Promise((resolve) => setTimeout(resolve, 300));
    for (const stream of [...waiting, later]) stream.cancel();
    for (const stream of waiting) expect(await stream.ended).not.toBe('QUEUE_FULL');
    expect(await later.ended).not.toBe('QUEUE_FULL');
    running.cancel();
    expect(Date.now() - began).toBeGreaterThan(800);
  });

  it('has executors replaced while a stream goes on', async () => {
    const stream = longStream();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const { code, stderr } = await admin('--replace-executors');
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'replaced; executors started so far: 2\n' });
    expect(await stream.ended).toBe('ended');
  });

  it('is refused what makes no sense, and then nothing is changed', async () => {
    const before = await settings();
    const client = new AdminServiceClient(ADMIN, credentials.createInsecure());
    for (const given of [
      { logLevel: 'loud', maxQueuedRequests: 5 },
      { logLevel: 'warn', maxQueuedRequests: 0 },
      { maxQueuedTokens: 5, maxQueuedRequestsPerPeer: 0 },
    ]) {
      const error = await new Promise((resolve) => client.updateSettings({ settings: given }, resolve));
      expect(errorInfo(error as never)).toMatchObject({ reason: 'INVALID_FIELD', metadata: { field: /^settings\./ } });
    }
    client.close();
    expect(await settings()).toEqual(before);
  });
});

describe('rocmforge report', () => {
  it('tells versions, options, settings, faults and metrics, and no prompt, secret or name', async () => {
    const stream = longStream();
    await new Promise((resolve) => setTimeout(resolve, 300));
    const pids = execFileSync('ps', ['-o', 'pid=,args=', '--ppid', String(gateway.pid)], { encoding: 'utf8' });
    process.kill(Number.parseInt(pids.split('\n').find((one) => one.includes(' executor ')) ?? '', 10), 'SIGKILL');
    const file = path.join(folder, 'report.json');
    await expect.poll(() => existsSync(path.join(folder, 'state', 'faults.json'))).toBe(true);
    const args = ['report', '--admin', ADMIN, '--state-dir', path.join(folder, 'state'), '--output', file];
    expect(await rocmforge(...args)).toMatchObject({ code: 0, stdout: '' });
    stream.cancel();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const text = readFileSync(file, 'utf8');
    const report = JSON.parse(text);
    expect(report).toMatchObject({
      format: 'rocmforge-report-1',
      faults: [{ signal: 'SIGKILL' }],
      gateway: {
        model: 'random',
        executors: expect.any(Number),
        executorStates: [expect.any(String)],
        settings: { logLevel: 'info' },
        options: { maxSequences: 1, tokenFile: 'tokens', otlpEndpoint: '127.0.0.1:9' },
        faults: [{ signal: 'SIGKILL' }],
      },
    });
    expect(report.gateway.metrics).toContain('rocmforge_executor_restarts_total{reason="SIGKILL"} 1');
    expect(report.installation.length).toBeGreaterThan(5);
    const [, hash = 'none'] = /sha256:(\w+)/.exec(line) ?? [];
    for (const secret of [...Object.values(SECRETS), 'orchidpassword', token, hash, folder, os.hostname()]) {
      expect(text).not.toContain(secret);
    }
    // An existing file stays as it is.
    expect(await rocmforge(...args)).toMatchObject({ code: 1, stderr: expect.stringContaining('EEXIST') });
  });

  it('without a gateway tells what is on this machine', async () => {
    const { code, stdout } = await rocmforge('report', '--state-dir', folder);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ faults: [], unreadableFaults: 0 });
    expect(await rocmforge('report', '--admin', at('nobody.sock'))).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('GATEWAY_UNAVAILABLE'),
    });
  });
});
