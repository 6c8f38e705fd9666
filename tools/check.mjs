// Lint and format of TypeScript, C++ and proto, and the type check. `--write` formats instead of complaining.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const write = process.argv.includes('--write');
const bin = (name) => path.join(root, 'node_modules', '.bin', name);

/** Runs a program; false and its output on stderr when it fails. */
function passes(what, program, args) {
  const { status, stdout, stderr, error } = spawnSync(bin(program), args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) console.error(`${what} failed\n${stdout ?? ''}${stderr ?? ''}${error ?? ''}`);
  return status === 0;
}

/** Formats one C++ file through standard input: clang-format does not know that `.hip` is C++. */
function formatCpp(file) {
  const source = readFileSync(file, 'utf8');
  const args = ['--style=file', '--assume-filename=native/file.cc'];
  const { status, stdout, stderr } = spawnSync(bin('clang-format'), args, {
    cwd: root,
    input: source,
    encoding: 'utf8',
  });
  if (status !== 0) {
    console.error(`clang-format failed on ${file}\n${stderr}`);
    return false;
  }
  if (stdout === source) return true;
  if (write) writeFileSync(file, stdout);
  else console.error(`${path.relative(root, file)} is not formatted; run "npm run format"`);
  return write;
}

// contract.h is written by the build.
const cppFiles = ['kernels', 'kernels/forge', 'kernels/twins', 'native'].flatMap((folder) =>
  readdirSync(path.join(root, folder))
    .filter((name) => /\.(hip|h|cc)$/.test(name) && name !== 'contract.h')
    .map((name) => path.join(root, folder, name)),
);

const results = [
  passes('buf lint', 'buf', ['lint']),
  passes('buf format', 'buf', write ? ['format', '-w'] : ['format', '-d', '--exit-code']),
  passes('biome', 'biome', ['check', '--error-on-warnings', ...(write ? ['--write'] : [])]),
  passes('tsc', 'tsc', ['-p', 'tsconfig.json']),
  ...cppFiles.map(formatCpp),
];
const failures = results.filter((passed) => !passed).length;
console.log(`check: ${results.length - failures} of ${results.length} checks passed`);
process.exit(failures === 0 ? 0 : 1);
