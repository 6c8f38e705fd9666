// Script of `npm ci` in a checkout: the build, with the host's kernels for this processor. npx installs a checkout whose command
// it is to run as if it were another package, on every change of it; what is built is then used as it is.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const run = (...args) => execFileSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
const isBuilt = ['dist/cli/main.js', 'build/Release/rocmforge.node'].every((file) => existsSync(path.join(root, file)));
if (process.env.npm_command !== 'exec' || !isBuilt) {
  run('tools/build-code.mjs');
  run('tools/build-kernels.mjs', '--target', 'host', '--best');
  run('tools/cache-code.mjs');
}
