import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { endProcess, rocmforge, startRocmforge } from '../support/command-line.js';
import { writeRandomModel } from '../support/random-model.js';

const model = writeRandomModel();
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const socket = (name: string) => `unix:${path.join(folder, name)}`;

describe('rocmforge', () => {
  it.each([1, 2])('bench measures as few as %i tokens', async (tokens) => {
    const args = ['--model', model, '--device', 'host', '--repeats', '1', '--prompt-tokens', '8', '--json'];
    const { code, stdout, stderr } = await rocmforge('bench', ...args, '--tokens', String(tokens));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { executor, client } = JSON.parse(stdout);
    expect(executor.decodeTokensPerSecond).toBeGreaterThan(0);
    // One message may bring all tokens: no time between two, and so no rate.
    expect(client.decodeTokensPerSecond ?? 1).toBeGreaterThan(0);
    expect(client.timeToFirstTokenMs).toBeGreaterThan(0);
  });

  it('bench measures several lengths of the prompt, a row each', async () => {
    const args = ['--model', model, '--device', 'host', '--repeats', '1', '--tokens', '2', '--prompt-tokens', '8,40'];
    const { code, stdout, stderr } = await rocmforge('bench', ...args);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const rows = stdout.split('\n').map((line) => line.trim().split(/\s+/));
    expect(rows.filter((row) => Number(row[1]) > 0).map(([prompt]) => prompt)).toEqual(['8', '40']);
    const { stdout: json } = await rocmforge('bench', ...args, '--json');
    expect(JSON.parse(json).map(({ promptTokens }: { promptTokens: number }) => promptTokens)).toEqual([8, 40]);
  });

  it('generate writes the text alone to stdout', async () => {
    const { code, stdout, stderr } = await rocmforge(
      'generate',
      '--model',
      model,
      '--prompt',
      'the fox',
      '--max-tokens',
      '8',
      '--temperature',
      '0',
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.length).toBeGreaterThan(1);
  });

  it('generate --json writes ids and text a line, the same text in all', async () => {
    const args = ['generate', '--model', model, '--prompt', 'the fox', '--max-tokens', '8', '--temperature', '0'];
    const plain = await rocmforge(...args);
    const { stdout } = await rocmforge(...args, '--json');
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(`${lines.map((line) => line.text ?? '').join('')}\n`).toBe(plain.stdout);
    expect(lines.at(-1)).toMatchObject({
      finish_reason: expect.stringContaining('FINISH_REASON_'),
      completion_tokens: expect.any(Number),
    });
  });

  it('serve with an executor started elsewhere serves the same text', async () => {
    const executor = await startRocmforge(/executor listening/, 'executor', '--listen', socket('executor.sock'));
    const gateway = await startRocmforge(
      /^serving /,
      ...['serve', '--model', model, '--listen', socket('gateway.sock'), '--executor', socket('executor.sock')],
    );
    try {
      const args = ['--prompt', 'the fox', '--max-tokens', '8', '--temperature', '0'];
      const remote = await rocmforge('generate', '--address', socket('gateway.sock'), ...args);
      expect(remote).toEqual(await rocmforge('generate', '--model', model, ...args));
    } finally {
      expect(await endProcess(gateway.child)).toBe(0);
      expect(await endProcess(executor.child)).toBe(0);
    }
  });

  it('an executor dies with the gateway that started it', async () => {
    const { child, line } = await startRocmforge(
      /"executor serving"/,
      'serve',
      '--model',
      model,
      '--listen',
      socket('orphan.sock'),
    );
    const { pid } = JSON.parse(line) as { pid: number };
    await endProcess(child, 'SIGKILL');
    await expect
      .poll(() => {
        try {
          process.kill(pid, 0);
          return 'alive';
        } catch {
          return 'gone';
        }
      })
      .toBe('gone');
  });

  it('gateway and executor open no inspector on SIGUSR1', async () => {
    const { child, line } = await startRocmforge(
      /"executor serving"/,
      ...['serve', '--model', model, '--listen', socket('signalled.sock')],
    );
    let stderr = '';
    child.stderr?.on('data', (data) => {
      stderr += data;
    });
    const executor = (JSON.parse(line) as { executorPid: number }).executorPid;
    child.kill('SIGUSR1');
    process.kill(executor, 'SIGUSR1');
    const args = ['--address', socket('signalled.sock'), '--prompt', 'the fox', '--max-tokens', '8'];
    expect((await rocmforge('generate', ...args)).code).toBe(0);
    expect(await endProcess(child)).toBe(0);
    expect(stderr).not.toContain('Debugger');
  });

  it('serve says what of the file is not used', async () => {
    const seeing = writeRandomModel({
      tensors: { 'v.patch_embd.weight': { dims: [16] }, 'mm.0.weight': { dims: [16] } },
    });
    const { child, line } = await startRocmforge(
      /not used of the model file/,
      ...['serve', '--model', seeing, '--listen', socket('seeing.sock')],
    );
    expect(JSON.parse(line)).toMatchObject({ tensors: 2, msg: expect.stringMatching(/encodes images or sound/) });
    await endProcess(child);
  });

  it('serves with a KV cache in q8_0, and ends with the reason where the model cannot have one', async () => {
    const start = (headDim: 16 | 64) => [
      'serve',
      '--model',
      writeRandomModel({ headDim }),
      '--listen',
      socket(`q8-${headDim}.sock`),
      '--kv-cache-type',
      'q8_0',
    ];
    const { child } = await startRocmforge(/^serving .* q8_0 KV cache/, ...start(64));
    const args = ['--address', socket('q8-64.sock'), '--prompt', 'the fox', '--max-tokens', '8'];
    expect((await rocmforge('generate', ...args)).code).toBe(0);
    await endProcess(child);
    const { code, stderr } = await rocmforge(...start(16));
    expect(code).not.toBe(0);
    expect(stderr).toContain(
      'rocmforge: INVALID_OPTION: this llama has heads of 16 elements; a KV cache in q8_0 holds',
    );
  });

  it('inspect describes a model file', async () => {
    const { code, stdout } = await rocmforge('inspect', model, '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ model: { architecture: 'llama' } });
  });

  it('doctor finds the host device working', async () => {
    const { code, stdout } = await rocmforge('doctor', '--json');
    expect(code).toBe(0);
    const findings = JSON.parse(stdout) as { check: string; state: string }[];
    expect(findings.find(({ check }) => check === 'host device')?.state).toBe('ok');
  });

  const notAModel = path.join(folder, 'wrong.gguf');
  writeFileSync(notAModel, 'this is no model file, whatever its name says');

  it.each([
    ['a missing model file', ['serve', '--model', path.join(folder, 'none.gguf')], 'MODEL_FILE_UNREADABLE'],
    ['a file that is no model', ['serve', '--model', notAModel], 'GGUF_INVALID'],
    ['an address that is none', ['serve', '--model', model, '--listen', 'nowhere'], 'INVALID_OPTION'],
    ['more context than the model has', ['serve', '--model', model, '--max-context', '100000'], 'INVALID_OPTION'],
    [
      'too little KV memory',
      ['serve', '--model', model, '--listen', socket('x.sock'), '--kv-memory', '1K'],
      'OUT_OF_MEMORY',
    ],
    [
      'no gateway at the address',
      ['generate', '--address', socket('none.sock'), '--prompt', 'x'],
      'GATEWAY_UNAVAILABLE',
    ],
    [
      'a file where the socket should be',
      ['serve', '--model', model, '--listen', `unix:${notAModel}`],
      'ADDRESS_IN_USE',
    ],
    ['neither model nor address', ['generate', '--prompt', 'x'], 'INVALID_OPTION'],
  ])('says in one line what is wrong with %s, and fails', async (_what, args, reason) => {
    const { code, stdout, stderr } = await rocmforge(...args);
    expect(code).toBe(1);
    expect(stdout).toBe('');
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(stderr).toContain(`rocmforge: ${reason}: `);
  });

  const anyPort = ['--listen', '127.0.0.1:0'];

  it('names the reason of an executor that cannot start, as the executor does', async () => {
    const { code, stderr } = await rocmforge(
      'serve',
      '--model',
      model,
      '--gpus',
      '0,1',
      '--split',
      'tensor',
      ...anyPort,
    );
    expect(code).toBe(1);
    expect(stderr.trim().split('\n').at(-1)).toMatch(
      /^rocmforge: (DEVICE_UNAVAILABLE|INVALID_OPTION): (?!.*exit code)/,
    );
  });

  it('says so when the port is in use', async () => {
    const server = createServer();
    const port = await new Promise<number>((resolve) =>
      server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
    );
    const { code, stderr } = await rocmforge('serve', '--model', model, '--listen', `127.0.0.1:${port}`);
    server.close();
    expect(code).toBe(1);
    expect(stderr).toMatch(/^rocmforge: ADDRESS_IN_USE: .*\n$/);
  });
});
