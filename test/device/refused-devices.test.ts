import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { rocmforge, runProgram } from '../support/command-line.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
const model = writeRandomModel({ type: 'F16' });

/** `rocmforge generate` in an environment. */
const generate = (env: Readonly<Record<string, string>>, ...args: string[]) =>
  runProgram(
    process.execPath,
    [main, 'generate', '--model', model, '--prompt', 'the', '--max-tokens', '2', '--max-context', '64', ...args],
    '',
    env,
  );

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

describe.skipIf(missing !== undefined)('on a HIP device, refused with one clear error:', () => {
  /** The built kernels with something wrong in gfx1100. */
  function spoiled(spoil: (folder: string) => void): string {
    const root = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const folder = path.join(root, 'gfx1100');
    cpSync(path.join(packageRoot, 'build', 'kernels', 'gfx1100'), folder, { recursive: true });
    spoil(folder);
    return root;
  }
  const double = new HipDouble();

  it('a code object that is not the one its manifest describes', async () => {
    const kernels = spoiled((folder) => writeFileSync(path.join(folder, 'rms_norm.hsaco'), 'changed'));
    const { code, stderr } = await generate(double.environment, '--device', 'hip', '--kernels', kernels);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/rms_norm\.hsaco is not the file its manifest describes; run "npm run build:kernels/);
  });

  it('a kernel that takes other arguments than its contract says', async () => {
    const kernels = spoiled((folder) => {
      const file = path.join(folder, 'manifest.json');
      const manifest = JSON.parse(readFileSync(file, 'utf8'));
      for (const { kernels: described } of manifest.files) {
        for (const kernel of described) if (kernel.name === 'rms_norm') kernel.arguments.pop();
      }
      writeFileSync(file, JSON.stringify(manifest));
    });
    const { code, stderr } = await generate(double.environment, '--device', 'hip', '--kernels', kernels);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/kernel rms_norm takes arguments of .* bytes, its contract says/);
  });

  it('no kernels for its architecture', async () => {
    const { environment } = new HipDouble({ target: 'gfx1036' });
    const { code, stderr } = await generate(environment, '--device', 'hip');
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/no kernels for gfx1036 in .*; run "npm run build:kernels -- --target gfx1036"/);
  });

  it('a GPU number that there is not', async () => {
    const { code, stderr } = await generate(double.environment, '--device', 'hip', '--gpu', '3');
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/there is no GPU 3; found: 0: test double/);
  });

  it.each([
    ['--gpu', '1'],
    ['--gpus', '0,1'],
    ['--gpus', '0,1', '--split', 'layer'],
  ])('serve %s %s: a GPU that there is not, once', async (...args) => {
    const listen = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'gateway.sock')}`;
    const environment = { ...double.environment, ROCMFORGE_LOG_LEVEL: 'info' };
    const serve = ['serve', '--model', model, '--device', 'hip', ...args, '--listen', listen];
    const { code, stderr } = await runProgram(process.execPath, [main, ...serve], '', environment);
    expect(code).toBe(1);
    expect(stderr.match(/there is no GPU 1/g)).toHaveLength(1);
    expect(stderr).toMatch(/^rocmforge: DEVICE_UNAVAILABLE: hip: there is no GPU 1; found: 0: test double$/m);
  });

  it('a model that does not fit, before anything of it is uploaded', async () => {
    const small = new HipDouble({ memoryBytes: 64 << 20 });
    const { code, stderr } = await generate(small.environment, '--device', 'hip');
    expect(code).not.toBe(0);
    expect(stderr).toMatch(
      /does not fit: .* of weights, .* for the KV cache of one sequence and 268\.4 MB that stay free for the driver, .* free/,
    );
    expect(small.calls().filter((call) => call.startsWith('in '))).toEqual([]);
  });
});

describe('where there is no GPU', () => {
  it('auto runs on the host and says why', async () => {
    const { code, stderr } = await generate({ ROCMFORGE_LOG_LEVEL: 'info' }, '--device', 'auto');
    expect(code).toBe(0);
    expect(stderr).toMatch(/"platform":"cuda".*not used: /);
  });

  it.each([
    ['--gpu', '0'],
    ['--gpus', '0,1', '--split', 'layer'],
  ])('%s %s: auto does not take the host', async (...args) => {
    const { code, stderr } = await generate({}, '--device', 'auto', ...args);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/GPU 0 cannot be used: hip: .*; cuda: .*; without --gpu and --gpus the CPU is used/);
  });

  it('serve --gpus 0,1: nothing is served from the host', async () => {
    const listen = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'gateway.sock')}`;
    const { code, stdout, stderr } = await rocmforge('serve', '--model', model, '--gpus', '0,1', '--listen', listen);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/DEVICE_UNAVAILABLE.*GPU [01] cannot be used: hip: .*; cuda: /);
  });

  const header = '/usr/include/hip/hip_runtime_api.h';
  const hasLibrary = existsSync(header);
  if (!hasLibrary)
    console.log('skipped, AMD’s own runtime library: libamdhip64-5 and libamdhip64-dev are not installed');

  it.skipIf(!hasLibrary)('AMD’s own library has every symbol of the table and reports its own error', async () => {
    const { code, stderr } = await generate({ ROCM_PATH: '' }, '--device', 'hip');
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/hip: hipErrorNoDevice$/m);
  });

  it.skipIf(!hasLibrary)('its header declares the table’s prototypes', () => {
    const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'prototypes.o');
    const source = path.join(packageRoot, 'test', 'device', 'hip-prototypes.cc');
    const args = ['-std=c++20', '-D__HIP_PLATFORM_AMD__', '-Wno-deprecated-declarations', '-c', source, '-o', output];
    execFileSync(process.env.CXX ?? 'g++', args, { stdio: 'pipe' });
    expect(existsSync(output)).toBe(true);
    rmSync(output);
  });
});
