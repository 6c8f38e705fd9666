import { mkdtempSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { shellRocmforge } from '../support/command-line.js';
import { startFakeGateway } from '../support/fake-gateway.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const NO_ROOM = 'DISK_FULL: stdout cannot be written: no space is left on its disk; free space, or write elsewhere';

describe('a command whose stdout cannot be written says so and fails', () => {
  it.each([
    'token x',
    'report',
    'inspect models/demo.gguf',
    'doctor',
    'completion bash',
    '--help',
    '--version',
    'serve --help',
  ])('%s', async (words) => {
    const { code, stderr } = await shellRocmforge(`rocmforge ${words} > /dev/full`);
    expect(code).toBe(1);
    const lines = stderr.trimEnd().split('\n');
    expect(lines.filter((line) => line.startsWith('rocmforge:'))).toEqual([`rocmforge: ${NO_ROOM}`]);
    expect(stderr).not.toMatch(/^ +at /m);
  });

  it('generate, which ends its request', async () => {
    const gateway = await startFakeGateway();
    try {
      const { code, stderr } = await shellRocmforge(`rocmforge generate --address ${gateway.address} hi > /dev/full`);
      expect([code, stderr]).toEqual([1, `rocmforge: ${NO_ROOM}\n`]);
    } finally {
      await gateway.stop();
    }
  });

  // A write that fits in part is no error of the system.
  it('where only a part of the output fits', async () => {
    const { code, stderr } = await shellRocmforge(`ulimit -f 1; rocmforge completion bash > ${folder}/completion`);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^rocmforge: SYSTEM_LIMIT: stdout cannot be written: .*ulimit -f/);
  });
});

it('a closed pipe ends a command without a word', async () => {
  const { code, stderr } = await shellRocmforge('set -o pipefail; rocmforge completion bash | true');
  expect([code, stderr]).toEqual([0, '']);
});

it('a gateway whose stdout cannot be written serves until it is stopped, and has its own exit code', async () => {
  const serve = `rocmforge serve --model models/demo.gguf --device host --listen unix:${folder}/a.sock`;
  const stop = `until [ -S ${folder}/a.sock ] && grep -q stdout ${folder}/log; do sleep 0.05; done; kill $!; wait $!`;
  const { code } = await shellRocmforge(`${serve} > /dev/full 2> ${folder}/log & ${stop}`);
  expect([code, readFileSync(`${folder}/log`, 'utf8')]).toEqual([0, `rocmforge: ${NO_ROOM}\n`]);
});
