import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { startRocmforge } from '../support/command-line.js';
import { restoreEnvironment } from '../support/environment.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

describe.skipIf(missing !== undefined)('an executor at an address whose device hangs', () => {
  it('ends by itself, and its gateway’s streams go on with the one that is started in its place', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const address = `unix:${path.join(folder, 'executor.sock')}`;
    const double = new HipDouble({ fault: 'hang@graph:12' });
    const before = { ...process.env };
    const start = async () => {
      double.install();
      const options = ['--listen', address, '--device', 'hip', '--step-timeout-ms', '1000', '--lease-ms', '1000'];
      const started = await startRocmforge(/executor listening/, 'executor', ...options).finally(() => {
        restoreEnvironment(before);
      });
      return started.child;
    };
    let executor = await start();
    const ends: (string | null)[] = [];
    const restarted = new Promise<void>((resolve, reject) => {
      // As a service manager does.
      executor.once('exit', (_, signal) => {
        ends.push(signal);
        start().then((child) => {
          executor = child;
          resolve();
        }, reject);
      });
    });
    const model = writeRandomModel({ type: 'F16' });
    const server = await startTestGateway(model, { executor: { address }, stepTimeoutMs: 1000 });
    try {
      const ofTokens = (maxTokens: number) =>
        generate(
          server.client,
          request({ text: 'the fox', sampling: { temperature: 0 }, stop: { maxTokens, ignoreEos: true } }),
        );
      const beginning = await ofTokens(4);
      const { tokenIds } = await ofTokens(40);
      await restarted;
      expect(ends).toEqual(['SIGKILL']);
      expect(tokenIds).toHaveLength(40);
      expect(tokenIds.slice(0, 4)).toEqual(beginning.tokenIds);
      expect((await ofTokens(40)).tokenIds).toEqual(tokenIds);
    } finally {
      await server.stop();
      executor.kill('SIGKILL');
    }
  });
});
