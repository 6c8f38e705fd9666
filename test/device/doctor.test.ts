import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Finding } from '../../src/cli/doctor/finding.js';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';

async function doctor(env: Readonly<Record<string, string>>): Promise<{ code: number | null; findings: Finding[] }> {
  const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
  const { code, stdout } = await runProgram(process.execPath, [main, 'doctor', '--json'], '', env);
  return { code, findings: JSON.parse(stdout) };
}
const of = (findings: readonly Finding[], name: string) => findings.find(({ check }) => check === name);

describe('doctor', () => {
  it('without a GPU says why there is none, and that the host works', async () => {
    // The loader finds what it finds; this folder adds nothing.
    const { code, findings } = await doctor({ ROCM_PATH: mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')) });
    expect(code).toBe(0);
    expect(of(findings, 'host device')).toMatchObject({
      state: 'ok',
      detail: expect.stringMatching(/\d+ kernels match their contracts, self-test passed/),
    });
    for (const [check, advice] of [
      ['HIP runtime', /^it is installed and sees no GPU: hip|^libamdhip64 is nowhere; nothing else of ROCm is needed/],
      ['CUDA driver', /.+; only NVIDIA’s cards need it/],
    ] as const) {
      const finding = of(findings, check);
      // On a machine with such a GPU that line says what works.
      if (finding?.state === 'missing') expect(finding.detail).toMatch(advice);
      else expect(finding?.state).toBe('ok');
    }
  });

  const missing = doubleIsMissing();
  if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);
  describe.skipIf(missing !== undefined)('with a HIP device', () => {
    it('runs kernels on it', async () => {
      const { code, findings } = await doctor(new HipDouble().environment);
      expect(of(findings, 'HIP runtime')).toMatchObject({
        state: 'ok',
        detail: expect.stringMatching(/^1, by \/.*build\/double\/lib\/libamdhip64\.so, version/),
      });
      expect(of(findings, 'hip 0')).toMatchObject({
        state: 'ok',
        detail: expect.stringMatching(/^test double, gfx1100, 2\.1 GB: .*match their contracts, self-test passed$/),
      });
      expect(code).toBe(0);
    });

    it('that has no kernels, fails with what to run', async () => {
      const { code, findings } = await doctor(new HipDouble({ target: 'gfx1036' }).environment);
      expect(of(findings, 'hip 0')).toMatchObject({
        state: 'failed',
        detail: expect.stringMatching(/gfx1036.*run "npm run build:kernels -- --target gfx1036"/),
      });
      expect(code).toBe(1);
    });

    it('that computes nothing right any more, fails', async () => {
      const { environment } = new HipDouble({ fault: 'illegal@launch:3' });
      const { code, findings } = await doctor(environment);
      expect(of(findings, 'hip 0')?.state).toBe('failed');
      expect(code).toBe(1);
    });
  });
});
