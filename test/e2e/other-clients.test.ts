import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { endProcess, runProgram, startRocmforge } from '../support/command-line.js';
import { startTestGateway, type TestGateway } from '../support/gateway.js';
import { baseOf, eventsOf } from '../support/http.js';
import { writeRandomModel } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';

describe('a client that is not ours', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(writeRandomModel(), { stepDelayMs: 5 });
  });
  afterAll(() => server?.stop());

  /** Each example streams, cancels, meets its deadline and reads the details of an error. */
  function expectAllFour(stdout: string): void {
    expect(stdout).toMatch(/^(FINISH_REASON_)?(STOP|LENGTH): \d+ tokens$/m);
    expect(stdout).toContain('cancelled after 3 chunks: CANCELLED');
    expect(stdout).toContain('with a deadline of 20 ms: DEADLINE_EXCEEDED');
    expect(stdout).toMatch(/^with top_p 2: INVALID_ARGUMENT INVALID_FIELD: .+ \(sampling\.top_p\)$/m);
  }

  const buf = (method: string, data: string, socket = server.address.slice('unix:'.length)) =>
    runProgram(path.join(packageRoot, 'node_modules', '.bin', 'buf'), [
      ...['curl', '--protocol', 'grpc', '--http2-prior-knowledge', '--schema', 'proto'],
      ...['--unix-socket', socket, '--data', data, `http://localhost/${method}`],
    ]);

  it('buf curl streams a generation over the socket', async () => {
    const { code, stdout, stderr } = await buf(
      'rocmforge.v1.InferenceService/GenerateStream',
      JSON.stringify({
        text: { text: 'the fox' },
        sampling: { temperature: 0 },
        stop: { maxTokens: 5, ignoreEos: true },
      }),
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    // Chunks that wait for their reader are sent as one.
    const ids = [...stdout.matchAll(/"tokenIds":\s*\[([^\]]*)\]/g)].flatMap(([, list]) => list?.split(','));
    expect(ids).toHaveLength(5);
    expect(stdout).toContain('FINISH_REASON_LENGTH');
  });

  it.each(['', 'rocmforge.v1.InferenceService'])('buf curl finds the health of "%s" serving', async (service) => {
    const { code, stdout } = await buf('grpc.health.v1.Health/Check', JSON.stringify({ service }));
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ status: 'SERVING' });
  });

  it('buf curl finds an executor’s health not serving before a model is loaded, and serving after', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const [socket, gatewaySocket] = [path.join(folder, 'executor.sock'), path.join(folder, 'gateway.sock')];
    const { child } = await startRocmforge(/executor listening/, 'executor', '--listen', `unix:${socket}`);
    const states = async () => {
      const answers = ['', 'rocmforge.executor.v1.ExecutorService'].map((service) =>
        buf('grpc.health.v1.Health/Check', JSON.stringify({ service }), socket),
      );
      return (await Promise.all(answers)).map(({ stdout }) => (JSON.parse(stdout) as { status: string }).status);
    };
    try {
      expect(await states()).toEqual(['NOT_SERVING', 'NOT_SERVING']);
      const gateway = await startRocmforge(
        /^serving /,
        ...[
          'serve',
          '--model',
          writeRandomModel(),
          '--listen',
          `unix:${gatewaySocket}`,
          '--executor',
          `unix:${socket}`,
        ],
      );
      expect(await states()).toEqual(['SERVING', 'SERVING']);
      await endProcess(gateway.child);
    } finally {
      await endProcess(child);
    }
  });

  it('buf curl reads the details of an error', async () => {
    const { code, stderr } = await buf(
      'rocmforge.v1.InferenceService/Generate',
      JSON.stringify({ text: { text: 'the fox' }, sampling: { topP: 2 } }),
    );
    expect(code).not.toBe(0);
    expect(stderr).toContain('invalid_argument');
    const { details } = JSON.parse(stderr) as { details: { type: string; value: string }[] };
    const info = details.find(({ type }) => type === 'google.rpc.ErrorInfo');
    expect(Buffer.from(info?.value ?? '', 'base64').toString('latin1')).toContain('INVALID_FIELD');
  });

  const plugin = '/usr/bin/grpc_python_plugin';
  const hasPython =
    existsSync(plugin) && spawnSync('/usr/bin/python3', ['-c', 'import grpc'], { stdio: 'ignore' }).status === 0;
  if (!hasPython) console.log('skipped: the Python example; it needs python3-grpcio and protobuf-compiler-grpc');
  it.skipIf(!hasPython)('the Python example does the same', async () => {
    const generated = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const hasGoogles = spawnSync('/usr/bin/python3', ['-c', 'import google.rpc.status_pb2'], { stdio: 'ignore' });
    // Debian has no googleapis-common-protos everywhere; what it holds is made of the same files.
    const googles = hasGoogles.status === 0 ? [] : ['google/rpc/status.proto', 'google/rpc/error_details.proto'];
    const protos = ['rocmforge/v1/inference.proto', ...googles];
    const compiled = await runProgram('protoc', [
      ...['-I', 'proto', `--python_out=${generated}`, `--grpc_python_out=${generated}`],
      `--plugin=protoc-gen-grpc_python=${plugin}`,
      ...protos.map((file) => `proto/${file}`),
    ]);
    expect(compiled).toMatchObject({ code: 0 });
    const client = path.join(packageRoot, 'examples', 'python', 'client.py');
    const ended = await runProgram('/usr/bin/python3', [client, server.address, 'the fox'], '', {
      PYTHONPATH: generated,
    });
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expectAllFour(ended.stdout);
  });

  const hasGrpcpp =
    spawnSync('pkg-config', ['--exists', 'grpc++']).status === 0 && existsSync('/usr/bin/grpc_cpp_plugin');
  if (!hasGrpcpp) console.log('skipped: the C++ example; it needs libgrpc++-dev and protobuf-compiler-grpc');
  // Its compiler takes 45 s.
  it.skipIf(!hasGrpcpp || !isFull)('the C++ example does the same', async () => {
    const built = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const script = path.join(packageRoot, 'examples', 'cpp', 'build.sh');
    expect(await runProgram('sh', [script, built])).toMatchObject({ code: 0 });
    const ended = await runProgram(path.join(built, 'client'), [server.address, 'the fox']);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expectAllFour(ended.stdout);
  });

  it('the Node example streams, cancels, meets its deadline and reads an error', async () => {
    const { code, stdout, stderr } = await runProgram(process.execPath, [
      path.join(packageRoot, 'examples', 'node', 'client.mjs'),
      server.address,
      'the fox',
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expectAllFour(stdout);
  });
});

// The time until a request has ended whose curl is killed is measured in test/faults/cancelled.clock.ts.
describe('curl, without more', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', stepDelayMs: 2 });
  });
  afterAll(() => server?.stop());

  const ASKED = { messages: [{ role: 'user', content: 'Tell me a story.' }], temperature: 0, max_tokens: 24 };
  const curl = async (body: object) => {
    const url = `${baseOf(server.gateway)}/v1/chat/completions`;
    const { code, stdout } = await runProgram('curl', [
      ...['-sN', '-w', '\n%{http_code} %{content_type}', '-H', 'content-type: application/json'],
      ...['-d', JSON.stringify(body), url],
    ]);
    expect(code).toBe(0);
    const [, text, status, type] = /^([\s\S]*)\n(\d+) (.*)$/.exec(stdout) as RegExpExecArray;
    return { text: text as string, status: Number(status), type: type as string };
  };

  it('streams a chat, piece by piece, with the text of an answer that comes whole', async () => {
    const whole = JSON.parse((await curl(ASKED)).text);
    const { text, status, type } = await curl({ ...ASKED, stream: true });
    expect([status, type]).toEqual([200, 'text/event-stream; charset=utf-8']);
    const events = eventsOf(text);
    expect(events.at(-1)).toBe('[DONE]');
    const pieces = events.slice(0, -1).map((event) => JSON.parse(event).choices[0].delta.content ?? '');
    expect(pieces.join('')).toBe(whole.choices[0].message.content);
    expect(pieces.filter((piece) => piece !== '').length).toBeGreaterThan(3);
  });

  it('accepts a field that it does not know', async () => {
    expect((await curl({ ...ASKED, invented: 1 })).status).toBe(200);
  });

  it.each([
    [{ top_p: 2 }, 400, 'invalid_request_error', 'top_p', 'INVALID_FIELD'],
    [{ model: 'other' }, 404, 'not_found_error', 'model', 'model_not_found'],
  ])('is refused %j in OpenAI’s form, streamed or not', async (wrong, status, type, param, code) => {
    for (const stream of [false, true]) {
      const answer = await curl({ ...ASKED, ...wrong, stream });
      expect([answer.status, answer.type]).toEqual([status, 'application/json; charset=utf-8']);
      expect(JSON.parse(answer.text)).toEqual({ error: { message: expect.any(String), type, param, code } });
    }
  });
});
