import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { endProcess, startRocmforge } from '../support/command-line.js';

const COMMAND = path.join(packageRoot, 'dist', 'cli', 'main.js');
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));

it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  '%s ends a gateway that does not serve yet, and SIGUSR2 does not',
  async (signal) => {
    // A hub that answers nothing: who asks it is still at the model.
    const hub = createServer();
    await new Promise<void>((resolve) => hub.listen(0, '127.0.0.1', resolve));
    const { port } = hub.address() as { port: number };
    const env = { ...process.env, HF_ENDPOINT: `http://127.0.0.1:${port}`, HF_HOME: folder };
    const args = ['serve', '--model', 'hf.co/acme/fox', '--listen', `unix:${path.join(folder, 'a.sock')}`];
    const child = spawn(process.execPath, [COMMAND, ...args], { env, stdio: 'ignore' });
    try {
      const [socket] = await once(hub, 'connection');
      child.kill('SIGUSR2');
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect([child.exitCode, child.signalCode]).toEqual([null, null]);
      child.kill(signal);
      expect(await once(child, 'close')).toEqual([130, null]);
      socket.destroy();
    } finally {
      child.kill('SIGKILL');
      hub.close();
    }
  },
);

it('says where metrics are', async () => {
  const listening = ['--listen', `unix:${path.join(folder, 'm.sock')}`, '--metrics-listen', '127.0.0.1:0'];
  const model = path.join(packageRoot, 'models', 'demo.gguf');
  const { child, line } = await startRocmforge(
    /^serving metrics/,
    'serve',
    '--model',
    model,
    ...listening,
    '--no-spare',
  );
  try {
    const answer = await fetch(line.replace('serving metrics on ', ''));
    expect(await answer.text()).toContain('rocmforge_');
  } finally {
    await endProcess(child);
  }
});

it('who is cut by a drain that takes too long is told so over HTTP', async () => {
  const listening = ['--listen', `unix:${path.join(folder, 'b.sock')}`, '--http-listen', '127.0.0.1:0'];
  const limits = ['--max-sequences', '1', '--drain-timeout-ms', '200'];
  const model = path.join(packageRoot, 'models', 'demo.gguf');
  const { child, line } = await startRocmforge(/^serving HTTP/, 'serve', '--model', model, ...listening, ...limits);
  const at = line.replace('serving HTTP on ', '');
  let log = '';
  child.stderr?.on('data', (data) => {
    log += data;
  });
  const ask = (stream: boolean) =>
    fetch(`${at}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo', prompt: 'Once', max_tokens: 900, ignore_eos: true, stream }),
    });
  const begun = await ask(true);
  const reader = (begun.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  const waiting = ask(false);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const ended = endProcess(child);
  let text = '';
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) text += Buffer.from(piece.value);
  expect(text).toMatch(/data: \{"error":\{[^\n]*shutting down/);
  const { status } = await waiting;
  expect(status).toBe(503);
  expect(await ended).toBe(3);
  expect(log).toMatch(/"streams":2,"timeoutMs":200,"delayMs":0,"msg":"draining: /);
  expect(log).toMatch(/"ended":0,"cut":2,.*"msg":"drain timed out: the remaining streams are cut"/);
});

/** An environment whose temporary folder is empty. */
function ownTemporaryFolder(name: string) {
  const temporary = path.join(folder, name);
  mkdirSync(temporary);
  return { temporary, env: { ...process.env, TMPDIR: temporary } };
}

it('a signal during the start leaves no socket files', async () => {
  // An executor that answers nothing: the gateway listens already.
  const executor = createServer();
  await new Promise<void>((resolve) => executor.listen(0, '127.0.0.1', resolve));
  const { port } = executor.address() as { port: number };
  const sockets = ['c', 'd', 'e'].map((name) => path.join(folder, `${name}.sock`));
  const [listen, http, admin] = sockets.map((socket) => `unix:${socket}`) as [string, string, string];
  const addresses = ['--listen', listen, '--http-listen', http, '--admin-listen', admin];
  const model = path.join(packageRoot, 'models', 'demo.gguf');
  const args = ['serve', '--model', model, '--executor', `127.0.0.1:${port}`, ...addresses];
  const child = spawn(process.execPath, [COMMAND, ...args], { stdio: 'ignore' });
  try {
    await once(executor, 'connection');
    expect(sockets.map(existsSync)).toEqual([true, true, true]);
    child.kill('SIGTERM');
    expect(await once(child, 'close')).toEqual([130, null]);
    expect(sockets.map(existsSync)).toEqual([false, false, false]);
  } finally {
    child.kill('SIGKILL');
    executor.close();
  }
});

it('a second signal during a drain leaves no socket file and no folder of an executor', async () => {
  const { temporary, env } = ownTemporaryFolder('drain');
  const socket = path.join(folder, 'f.sock');
  const args = ['--model', path.join(packageRoot, 'models', 'demo.gguf'), '--listen', `unix:${socket}`];
  const serve = ['serve', ...args, '--drain-delay-ms', '60000'];
  const child = spawn(process.execPath, [COMMAND, ...serve], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    await once(child.stdout, 'data');
    expect(readdirSync(temporary)).not.toEqual([]);
    child.kill('SIGTERM');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(existsSync(socket)).toBe(true);
    child.kill('SIGTERM');
    expect(await once(child, 'close')).toEqual([130, null]);
    expect([existsSync(socket), readdirSync(temporary)]).toEqual([false, []]);
  } finally {
    child.kill('SIGKILL');
  }
});

it('a signal that ends generate leaves no folders', async () => {
  const { temporary, env } = ownTemporaryFolder('generate');
  const model = path.join(packageRoot, 'models', 'demo.gguf');
  const args = ['generate', '--model', model, '--max-tokens', '900', '--step-delay-ms', '50', 'Once'];
  const child = spawn(process.execPath, [COMMAND, ...args], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    await once(child.stdout, 'data');
    expect(readdirSync(temporary)).not.toEqual([]);
    child.kill('SIGINT');
    expect(await once(child, 'close')).toEqual([null, 'SIGINT']);
    expect(readdirSync(temporary)).toEqual([]);
  } finally {
    child.kill('SIGKILL');
  }
});
