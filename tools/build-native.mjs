// Builds the addon, and prints what the build says only where it fails or warns: node-gyp prints a line for each source.
import { spawnSync } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const nodeGyp = path.join(root, 'node_modules', '.bin', 'node-gyp');
const { status, error, stdout, stderr } = spawnSync(
  nodeGyp,
  ['configure', 'build', '--jobs', String(os.availableParallelism())],
  {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  },
);
if (error !== undefined) throw error;
if (status !== 0 || /\bwarning:/.test(stdout + stderr)) process.stderr.write(stdout + stderr);
process.exit(status ?? 1);
