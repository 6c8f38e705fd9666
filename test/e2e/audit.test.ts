import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  ChatInput,
  type GenerateStreamRequest,
  type GenerateStreamResponse,
  InferenceServiceClient,
  TokenizeRequest,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { packageRoot } from '../../src/shared/package.js';
import { hasOpenssl, makeAuthority } from '../support/certificates.js';
import { endProcess, rocmforge, runProgram } from '../support/command-line.js';
import { request } from '../support/gateway.js';

const SECRET = 'zanzibarmarmalade';
const TOKEN = 'of-alice-and-of-nobody-else';
const cli = path.join(packageRoot, 'dist', 'cli', 'main.js');
const model = path.join(packageRoot, 'models', 'demo.gguf');
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));

describe('what a gateway writes of its requests', () => {
  let gateway: ChildProcess;
  let client: InferenceServiceClient;
  let logs = '';
  beforeAll(async () => {
    const tokenFile = path.join(folder, 'tokens');
    writeFileSync(tokenFile, `alice sha256:${createHash('sha256').update(TOKEN).digest('hex')}\n`);
    const address = `unix:${path.join(folder, 'gateway.sock')}`;
    const args = ['serve', '--model', model, '--device', 'host', '--listen', address, '--token-file', tokenFile];
    // Everything that either process has to say.
    const env = { ...process.env, ROCMFORGE_LOG_LEVEL: 'trace' };
    gateway = spawn(process.execPath, [cli, ...args, '--state-dir', folder], { env });
    gateway.stderr?.on('data', (data) => {
      logs += data;
    });
    await new Promise((resolve) => gateway.stdout?.once('data', resolve));
    client = new InferenceServiceClient(address, credentials.createInsecure());
  });
  afterAll(async () => {
    client?.close();
    await endProcess(gateway, 'SIGKILL');
  });

  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${TOKEN}`);

  /** Runs a generation to its end. @returns its text, or its error */
  function run(message: GenerateStreamRequest, { cancelled = false } = {}): Promise<string> {
    const call = client.generateStream(message, metadata);
    let text = '';
    return new Promise((resolve) => {
      call.on('data', ({ event }: GenerateStreamResponse) => {
        if (event?.$case === 'chunk') text += event.value.text;
        if (cancelled) call.cancel();
      });
      call.on('error', ({ details }: ServiceError) => resolve(details));
      call.on('end', () => resolve(text));
    });
  }
  const audited = () =>
    logs
      .split('\n')
      .filter((line) => line.includes('"name":"audit"'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);

  it('is one line a generation at its end: who, how much, how it ended', async () => {
    await run(request({ requestId: 'first', text: 'Once', stop: { maxTokens: 5, ignoreEos: true } }));
    await expect.poll(() => audited().length).toBe(1);
    expect(audited()[0]).toMatchObject({
      name: 'audit',
      requestId: 'first',
      principal: 'token:alice',
      peer: expect.stringMatching(/^unix:\d+$/),
      model: 'demo',
      promptTokens: expect.any(Number),
      completionTokens: 5,
      outcome: 'length',
      durationMs: expect.any(Number),
    });
    await run(request({ text: 'Once', stop: { maxTokens: 500, ignoreEos: true } }), { cancelled: true });
    await expect.poll(() => audited().map(({ outcome }) => outcome)).toEqual(['length', 'cancelled']);
  });

  it('is a line, too, of each that goes while its grammar waits or is compiled, which leaves the threads to others', async () => {
    const before = audited().length;
    const slow = (least: number): GenerateStreamRequest => {
      const field = (maxLength: number) => ({ type: 'string', minLength: least, maxLength });
      const properties = Object.fromEntries([...'abcdefgh'].map((name, i) => [name, field(64 - i)]));
      const value = JSON.stringify({ properties, required: Object.keys(properties), additionalProperties: false });
      return request({
        requestId: `slow-${least}`,
        text: 'Once',
        constraint: { kind: { $case: 'jsonSchema', value } },
      });
    };
    // None can be at its end before it is cancelled.
    const calls = Array.from({ length: 6 }, (_, i) => client.generateStream(slow(40 + i), metadata));
    const left = calls.map(
      (call) =>
        new Promise((resolve) =>
          call
            .on('error', resolve)
            .on('end', resolve)
            .on('data', () => undefined),
        ),
    );
    // It comes behind them over the same connection, so they have come when it is answered.
    await new Promise((resolve) => client.listModels({}, metadata, resolve));
    for (const call of calls) call.cancel();
    await Promise.all(left);
    await run(request({ requestId: 'free', text: 'Once', stop: { maxTokens: 2, ignoreEos: true } }));
    await expect.poll(() => audited().length).toBe(before + 7);
    const gone = audited()
      .slice(before)
      .filter(({ requestId }) => requestId !== 'free');
    expect(gone.map(({ outcome }) => outcome)).toEqual(gone.map(() => 'cancelled'));
    expect(new Set(gone.map(({ requestId }) => requestId)).size).toBe(6);
    // Most never came to run.
    const waited = gone.filter(({ durationMs }) => durationMs === undefined);
    expect(waited.length).toBeGreaterThan(3);
    expect(waited[0]).toMatchObject({ principal: 'token:alice', model: 'demo', completionTokens: 0 });
    const choice = { kind: { $case: 'choice' as const, value: { options: ['yes', 'no'] } } };
    expect(['yes', 'no']).toContain(await run(request({ text: 'Once', constraint: choice })));
  });

  it('is nothing of what was asked or answered, and no credential, however requests end', async () => {
    const answer = await run(request({ text: `The ${SECRET} said`, stop: { maxTokens: 40, ignoreEos: true } }));
    expect(answer.length).toBeGreaterThan(40);
    const chat = ChatInput.fromPartial({ messages: [{ role: SECRET, content: SECRET }] });
    await run(request({ input: { $case: 'chat', value: chat }, stop: { maxTokens: 3 } }));
    await run(request({ text: SECRET.repeat(1000) }));
    await run(request({ text: SECRET.repeat(100_000) }));
    await run(request({ text: 'a', stop: { strings: [SECRET.repeat(100)] } }));
    await run(request({ text: 'a', stop: { strings: [SECRET], maxTokens: 3 } }));
    await run(request({ model: SECRET, text: 'a' }));
    const input = { $case: 'text', value: { text: SECRET, parseSpecial: false, addSpecial: undefined } } as const;
    await new Promise((resolve) => client.tokenize({ ...TokenizeRequest.create(), input }, metadata, resolve));
    const wrong = new Metadata();
    wrong.set('authorization', `Bearer ${SECRET}`);
    await new Promise((resolve) => client.listModels({}, wrong, resolve));
    // All that came before is written once this is.
    await run(request({ requestId: 'last', text: 'Once', stop: { maxTokens: 1 } }));
    await expect.poll(() => audited().at(-1)?.requestId).toBe('last');
    expect(logs).not.toContain(SECRET);
    expect(logs).not.toContain(TOKEN);
    expect(logs).not.toContain(answer.slice(0, 20));
  });
});

describe.skipIf(!hasOpenssl)('the command line', () => {
  it('makes a token, and shows it to a gateway over TLS', async () => {
    const { stdout, stderr } = await rocmforge('token', 'bob');
    const token = stderr.trim();
    const tokenFile = path.join(folder, 'bob');
    // As the shell does: rocmforge token bob > FILE
    writeFileSync(tokenFile, stdout);
    const authority = makeAuthority('servers');
    const { cert, key } = authority.issue('localhost');
    const args = ['serve', '--model', model, '--device', 'host', '--listen', 'localhost:0', '--token-file', tokenFile];
    const gateway = spawn(process.execPath, [
      cli,
      ...args,
      '--tls-cert',
      cert,
      '--tls-key',
      key,
      '--state-dir',
      folder,
    ]);
    try {
      const serving = await new Promise<string>((resolve) =>
        gateway.stdout.once('data', (data) => resolve(String(data))),
      );
      const address = /localhost:\d+/.exec(serving)?.[0] ?? '';
      const generate = [
        cli,
        'generate',
        '--address',
        address,
        '--ca',
        authority.ca,
        '--prompt',
        'Once',
        '--max-tokens',
        '5',
      ];
      const known = await runProgram(process.execPath, generate, '', { ROCMFORGE_TOKEN: token });
      expect([known.code, known.stderr]).toEqual([0, '']);
      const unknown = await runProgram(process.execPath, generate, '', { ROCMFORGE_TOKEN: `${token}x` });
      expect([unknown.code, unknown.stderr]).toEqual([1, expect.stringContaining('CREDENTIAL_INVALID')]);
      expect(unknown.stderr).toContain('Commands send the token in the environment variable ROCMFORGE_TOKEN');
    } finally {
      await endProcess(gateway, 'SIGKILL');
    }
  });
});
