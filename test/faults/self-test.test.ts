import { spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';
import { selfTest } from '../../src/executor/load/self-test.js';
import { packageRoot } from '../../src/shared/package.js';
import { startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

/** A folder of host kernels with a mistake in them. */
function planted(mistake: string): string {
  const output = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const tool = path.join(packageRoot, 'tools', 'plant-mistake.mjs');
  const { status, stderr } = spawnSync(process.execPath, [tool, '--output', output, '--mistake', mistake]);
  if (status !== 0) throw new Error(String(stderr));
  return output;
}

describe('the self-test of kernels before an executor serves', () => {
  it('passes on the kernels as they are, and gives its memory back', async () => {
    const device = openDevice({ kind: 'host' });
    await selfTest(device);
    const used = device.usedBytes;
    await selfTest(device);
    expect(device.usedBytes).toBe(used);
    expect(used).toBe(0);
  });

  it.each([
    ['wrong-norm', 'rms_norm'],
    ['wrong-activation', 'swiglu'],
  ])('refuses %s, naming the kernel', async (mistake, kernel) => {
    const device = openDevice({ kind: 'host', kernels: planted(mistake) });
    const error = { reason: 'KERNELS_INVALID', message: expect.stringContaining(`self-test of ${kernel} `) };
    await expect(selfTest(device)).rejects.toMatchObject(error);
  });

  it('a gateway with such kernels does not start, and tells why', async () => {
    const kernels = planted('wrong-norm');
    const starting = startTestGateway(writeRandomModel(), { executor: { spawn: { device: 'host', kernels } } });
    const error = { reason: 'KERNELS_INVALID', message: expect.stringContaining('self-test of rms_norm') };
    await expect(starting).rejects.toMatchObject(error);
  });
});
