import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';

const hasGit = spawnSync('git', ['--version']).status === 0;
if (!hasGit) console.log('skipped: git is not installed');

it.skipIf(!hasGit)('the example of docs/internals/model-families.md applies to this tree', () => {
  const page = readFileSync(path.join(packageRoot, 'docs/internals/model-families.md'), 'utf8');
  const [, diff] = /^```diff\n(.*?)^```$/ms.exec(page) ?? [];
  const changed = [...diff!.matchAll(/^--- a\/(.+)$/gm)].map(([, file]) => file!);
  expect(changed.length).toBeGreaterThanOrEqual(5);
  const copy = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  for (const file of changed) {
    mkdirSync(path.dirname(path.join(copy, file)), { recursive: true });
    copyFileSync(path.join(packageRoot, file), path.join(copy, file));
  }
  execFileSync('git', ['apply', '-'], { cwd: copy, input: diff });
  expect(readFileSync(path.join(copy, 'src/executor/models/index.ts'), 'utf8')).toContain("from './foo.js'");
});
