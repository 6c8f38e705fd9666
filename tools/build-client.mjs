// Builds @rocmforge/client (clients/node/) from src/client/: ES modules in dist/esm, CommonJS in dist/cjs, types beside both.
//
//   node tools/build-client.mjs [--output FOLDER]
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({ options: { output: { type: 'string' } } });
const output = path.resolve(options.output ?? path.join(root, 'clients', 'node', 'dist'));

/** @type {Readonly<Record<string, { readonly type: string, readonly options: readonly string[] }>>} */
const FORMATS = {
  esm: { type: 'module', options: ['--module', 'nodenext', '--moduleResolution', 'nodenext'] },
  cjs: { type: 'commonjs', options: ['--module', 'commonjs', '--moduleResolution', 'bundler', '--esModuleInterop'] },
};

rmSync(output, { recursive: true, force: true });
for (const [name, format] of Object.entries(FORMATS)) {
  const folder = path.join(output, name);
  const { status, stdout } = spawnSync(
    process.execPath,
    [
      path.join(root, 'node_modules', 'typescript', 'bin', 'tsc'),
      ...['--ignoreConfig', '--strict', '--target', 'es2022', '--skipLibCheck', '--types', 'node', '--declaration'],
      ...['--rootDir', path.join(root, 'src'), '--outDir', folder, ...format.options],
      path.join(root, 'src', 'client', 'index.ts'),
    ],
    { cwd: root, encoding: 'utf8' },
  );
  if (status !== 0) {
    console.error(`build-client: the ${name} build failed\n${stdout}`);
    process.exit(1);
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(path.join(folder, 'package.json'), `${JSON.stringify({ type: format.type })}\n`);
}
