import { mkdtempSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot, packageVersion } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';

it('npx in a checkout runs what is built, and builds nothing', async () => {
  const built = ['build/Release/rocmforge.node', 'dist/cli/main.js', 'build/kernels/host/manifest.json'];
  const times = () => built.map((file) => statSync(path.join(packageRoot, file)).mtimeMs);
  const before = times();
  // A cache of its own: npx has not seen this checkout, and asks no registry.
  const cache = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const env = { npm_config_cache: cache, npm_config_offline: 'true' };
  const { code, stdout } = await runProgram('npx', ['rocmforge', '--version'], '', env);
  expect({ code, stdout }).toEqual({ code: 0, stdout: `${packageVersion}\n` });
  expect(times()).toEqual(before);
});
