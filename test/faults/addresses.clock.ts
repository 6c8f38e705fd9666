import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { Terminal, terminalIsMissing } from '../support/terminal.js';

const model = path.join(packageRoot, 'models', 'demo.gguf');
const missing = terminalIsMissing();
if (missing !== undefined) console.log(`skipped: ${missing}`);

it('serve tells within two seconds that no executor answers', async () => {
  const serve = ['serve', '--model', model, '--device', 'host', '--listen', '127.0.0.1:0'];
  const started = performance.now();
  const { child } = await startRocmforge(/no executor answers/, ...serve, '--executor', 'unix:/nowhere/x.sock');
  expect(performance.now() - started).toBeLessThan(2000);
  await endProcess(child, 'SIGKILL');
});

// Nobody answers at an address that is for documentation alone.
it.skipIf(missing !== undefined).each(['unix:/nowhere/x.sock', '192.0.2.1:50051'])(
  'chat tells within 30 s that no gateway answers at %s',
  async (address) => {
    const started = performance.now();
    const terminal = Terminal.rocmforge(['chat', '--address', address]);
    await terminal.until(/GATEWAY_UNAVAILABLE: no gateway answers at /);
    expect(await terminal.code).toBe(1);
    expect(performance.now() - started).toBeLessThan(30_000);
  },
);
