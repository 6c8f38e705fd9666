import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
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
