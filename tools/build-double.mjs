// Builds the tests' own libamdhip64.so into build/double/lib, where ROCM_PATH=build/double finds it.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const sources = path.join(root, 'test', 'doubles', 'hip');
const library = path.join(root, 'build', 'double', 'lib', 'libamdhip64.so');

const newest = Math.max(...readdirSync(sources).map((name) => statSync(path.join(sources, name)).mtimeMs));
if (!existsSync(library) || statSync(library).mtimeMs < newest) {
  mkdirSync(path.dirname(library), { recursive: true });
  const warnings = ['-Wall', '-Wextra', '-Werror'];
  const kind = ['-std=c++20', '-O2', '-shared', '-fPIC', '-fvisibility=hidden'];
  execFileSync(
    process.env.CXX ?? 'g++',
    [...kind, ...warnings, '-o', library, path.join(sources, 'double.cc'), '-ldl', '-lpthread'],
    { stdio: 'inherit' },
  );
}
