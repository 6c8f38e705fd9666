import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const REPOSITORY = fileURLToPath(new URL('../../../../', import.meta.url));
const SOURCES = [
  'src/lib',
  'src/shared',
  'src/gateway/threads',
  'src/gateway/chat',
  'src/gateway/request',
  'src/gateway/api',
];

/**
 * Compiles what the encode worker imports into a folder of its own, so that a test needs no build and cannot meet an old
 * one: threads run JavaScript only. Types are not checked here.
 */
export function compileWorker(): { readonly file: string; readonly remove: () => void } {
  // Inside the repository, where the worker finds its packages.
  mkdirSync(join(REPOSITORY, 'build'), { recursive: true });
  const root = mkdtempSync(join(REPOSITORY, 'build/test-worker-'));
  for (const folder of SOURCES) {
    const names = readdirSync(join(REPOSITORY, folder), { recursive: true, encoding: 'utf8' });
    const files = names.filter((name) => name.endsWith('.ts')).map((name) => join(REPOSITORY, folder, name));
    // As a library it would leave a process behind.
    execFileSync(join(REPOSITORY, 'node_modules/.bin/esbuild'), [
      ...files,
      ...[`--outbase=${join(REPOSITORY, 'src')}`, `--outdir=${root}`],
      ...['--format=esm', '--target=node20', '--log-level=warning'],
    ]);
  }
  return {
    file: join(root, 'gateway/api/encode-worker.js'),
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}
