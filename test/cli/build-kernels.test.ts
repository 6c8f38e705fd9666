import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';

const clang = ['clang-19', 'clang-22'].find((name) => spawnSync(name, ['--version']).status === 0);
if (clang === undefined) console.log('skipped: neither clang-19 nor clang-22 is installed');

describe('build-kernels', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-build-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Builds rms_norm.hip for gfx1100; `env` decides which compiler is found. */
  function build(env: Record<string, string>, ...more: string[]) {
    const tool = path.join(packageRoot, 'tools', 'build-kernels.mjs');
    const args = ['--target', 'gfx1100', '--only', 'rms_norm.hip', '--output', folder, ...more];
    const { status, stderr } = spawnSync(process.execPath, [tool, ...args], { encoding: 'utf8', env });
    return { status, stderr, built: existsSync(path.join(folder, 'gfx1100', 'manifest.json')) };
  }

  /** A compiler that has a version and then does as told. */
  function compiler(body: string): string {
    const file = path.join(folder, 'compiler');
    writeFileSync(file, `#!/bin/sh\n[ "$1" = --version ] && echo "compiler of the test 1.0" && exit 0\n${body}\n`);
    chmodSync(file, 0o755);
    return file;
  }

  it('names what it tried and what to install when there is no compiler', () => {
    const { status, stderr, built } = build({ PATH: folder });
    expect(stderr).toMatch(
      /^build-kernels: no HIP compiler found \(tried hipcc, amdclang\+\+, clang-19, .*\); install ROCm, or clang-19 and lld-19\n$/,
    );
    expect([status, built]).toEqual([1, false]);
  });

  it('takes no other compiler when the one that HIPCC names does not run', () => {
    const { status, stderr, built } = build({ PATH: process.env.PATH ?? '', HIPCC: path.join(folder, 'missing') });
    expect(stderr).toBe(`build-kernels: HIPCC is ${path.join(folder, 'missing')}, which does not run\n`);
    expect([status, built]).toEqual([1, false]);
  });

  it('shows the compiler’s words when a kernel does not compile', () => {
    const { status, stderr, built } = build({
      PATH: '',
      HIPCC: compiler('echo "rms_norm.hip:7: no such type" >&2; exit 3'),
    });
    expect(stderr).toBe('build-kernels: rms_norm.hip for gfx1100 did not compile:\nrms_norm.hip:7: no such type\n\n');
    expect([status, built]).toEqual([1, false]);
  });

  it('does not believe a compiler that writes nothing', () => {
    const silent = compiler('exit 0');
    const { status, stderr, built } = build({ PATH: '', HIPCC: silent });
    expect(stderr).toBe(
      `build-kernels: ${silent} said nothing and wrote no ${path.join(folder, 'gfx1100', 'rms_norm.hsaco')}\n`,
    );
    expect([status, built]).toEqual([1, false]);
  });

  it('refuses a target that it does not know before it looks for a compiler', () => {
    const { status, stderr } = build({ PATH: folder }, '--target', 'gfx1100,radeon');
    expect(stderr).toBe(
      'build-kernels: unknown target "radeon"; use host, lanes, lanes32, lanes64, gfxNNNN or sm_NN\n',
    );
    expect(status).toBe(1);
  });

  it.each([
    [
      'missing.hip',
      `build-kernels: --only names missing.hip, which ${path.join(packageRoot, 'kernels')} does not hold\n`,
    ],
    ['top_k.hip', 'build-kernels: top_k.hip is a reference kernel, which only --twins builds\n'],
  ])('refuses to build %s alone before it looks for a compiler', (file, message) => {
    const { status, stderr } = build({ PATH: folder }, '--only', `rms_norm.hip,${file}`);
    expect([status, stderr]).toEqual([1, message]);
  });

  it.skipIf(clang === undefined)('refuses a kernel whose arguments are not those of its contract', () => {
    const kernels = path.join(folder, 'kernels');
    cpSync(path.join(packageRoot, 'kernels', 'forge'), path.join(kernels, 'forge'), { recursive: true });
    const source = readFileSync(path.join(packageRoot, 'kernels', 'rms_norm.hip'), 'utf8');
    const changed = source.replace(/(KERNEL\(rms_norm,[^{]*float eps)/, '$1, int more');
    expect(changed).not.toBe(source);
    writeFileSync(path.join(kernels, 'rms_norm.hip'), changed);
    const { status, stderr, built } = build({ PATH: process.env.PATH ?? '', HIPCC: clang! }, '--kernels', kernels);
    expect(stderr).toMatch(
      /rms_norm\S* for gfx1100 takes .*scalar of 4 at 28, scalar of 4 at 32; its contract says .*scalar of 4 at 28\n$/,
    );
    expect([status, built]).toEqual([1, false]);
  });
});
