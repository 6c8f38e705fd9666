import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';

const PLUGIN = '/usr/bin/grpc_python_plugin';
const PYTHON = '/usr/bin/python3';
const PROMPT = 'Once upon a time';
const TOKENS = 24;

const isHere = existsSync(PLUGIN) && spawnSync(PYTHON, ['-c', 'import grpc'], { stdio: 'ignore' }).status === 0;
if (!isHere) console.log('skipped: clients of other protocols; they need python3-grpcio and protobuf-compiler-grpc');

describe.skipIf(!isHere)('a client that is generated from', () => {
  const generated = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway('models/demo.gguf', { stepDelayMs: 5 });
    const protos = ['inference.proto', 'control.proto', 'grpc/engine/vllm_engine.proto'];
    const compiled = await runProgram('protoc', [
      ...['-I', 'protocols', `--python_out=${generated}`, `--grpc_python_out=${generated}`],
      `--plugin=protoc-gen-grpc_python=${PLUGIN}`,
      ...protos.map((file) => `protocols/vllm/${file}`),
    ]);
    expect(compiled).toMatchObject({ code: 0 });
  });
  afterAll(() => server?.stop());

  it.each([
    ['vLLM’s Inference and Control', 'inference', 'LENGTH', 'ABORTED'],
    ['SMG’s VllmEngine', 'engine', 'length', 'abort'],
  ])('%s generates, streams and aborts', async (_name, protocol, length, abort) => {
    const stop = { maxTokens: TOKENS, ignoreEos: true };
    const { tokenIds } = await generate(server.client, request({ text: PROMPT, sampling: { temperature: 0 }, stop }));
    const client = path.join(packageRoot, 'test', 'support', 'vllm_client.py');
    const { code, stdout, stderr } = await runProgram(PYTHON, [client, server.address, protocol, PROMPT], '', {
      PYTHONPATH: generated,
    });
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const told = JSON.parse(stdout);
    expect(told).toMatchObject({ whole: tokenIds, streamed: tokenIds, ends: [length], abortedEnds: [abort] });
    expect(told.messages).toBeGreaterThan(1);
    expect(told.aborted).toBeGreaterThan(0);
    expect(told.aborted).toBeLessThan(300);
    expect(server.gateway.replica.active).toBe(0);
  });
});
