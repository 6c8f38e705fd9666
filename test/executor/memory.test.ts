import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { afterAll, describe, expect, it } from 'vitest';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { InferenceServiceClient } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { packageRoot } from '../../src/shared/package.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { generate, request } from '../support/gateway.js';

const MOST_BESIDE_MODEL_BYTES = 300 << 20;

/** Bytes of memory that are this process's, shared pages by halves. */
function proportionalBytes(pid: number): number {
  const kilobytes = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}

describe.skipIf(process.platform !== 'linux')('gateway and executor together', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('hold the weights, the KV cache and at most 300 MiB, with a real vocabulary and a prompt behind them', async () => {
    const model = path.join(folder, 'model.gguf');
    // Llama-3.2-1B with fewer layers: what is beside the weights does not depend on how many there are.
    const shape = { ...SHAPES['llama-3.2-1b']!, layers: 2 };
    const weightBytes = synth({ shape, type: 'Q4_0', output: model });
    const [context, sequences] = [1024, 4];
    const kvBytes = 2 * shape.layers * shape.kvHeads * shape.headDim * 2 * context * sequences;
    const address = `unix:${path.join(folder, 'gateway.sock')}`;
    const limits = ['--max-context', `${context}`, '--max-sequences', `${sequences}`, '--no-spare'];
    const cli = path.join(packageRoot, 'dist', 'cli', 'main.js');
    const server = spawn(process.execPath, [cli, 'serve', '--model', model, '--listen', address, ...limits], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    try {
      await new Promise<void>((resolve, reject) => {
        server.stdout.on('data', (text: Buffer) => text.includes('serving') && resolve());
        server.on('exit', (code) => reject(new Error(`the server ended with ${code}`)));
      });
      const client = new InferenceServiceClient(address, credentials.createInsecure());
      const tokens = Array.from({ length: 700 }, (_, i) => i);
      await generate(client, request({ tokens, stop: { maxTokens: 32, ignoreEos: true } }));
      client.close();
      const [executor] = executorsOf(server.pid!);
      const total = proportionalBytes(server.pid!) + proportionalBytes(executor!);
      const beside = total - weightBytes - kvBytes;
      console.log(`memory beside weights and KV cache: ${(beside / 2 ** 20).toFixed(0)} MiB`);
      expect(beside).toBeLessThanOrEqual(MOST_BESIDE_MODEL_BYTES);
    } finally {
      server.kill('SIGTERM');
    }
  });
});
