// Completes dist/ after tsc: bundles the command and the programs of worker threads into dist/bundle/, where Node has fewer
// files to load, and makes `bin` executable. Packages of node_modules stay what they are.
import { chmodSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const dist = path.join(root, 'dist');
const bundle = path.join(dist, 'bundle');
const PROGRAMS = ['cli/program', 'gateway/api/encode-worker', 'gateway/matching/grammar-worker'];

rmSync(bundle, { recursive: true, force: true });
await build({
  entryPoints: Object.fromEntries(PROGRAMS.map((name) => [path.basename(name), path.join(dist, `${name}.js`)])),
  bundle: true,
  splitting: true,
  packages: 'external',
  platform: 'node',
  target: 'node20.18',
  format: 'esm',
  outdir: bundle,
  logLevel: 'warning',
});
chmodSync(path.join(dist, 'cli', 'main.js'), 0o755);
