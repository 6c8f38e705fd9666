// Builds the tests' own libamdhip64.so and librocblas.so into build/double/lib, where ROCM_PATH=build/double finds the former.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

for (const [folder, name] of [
  ['hip', 'libamdhip64.so'],
  ['rocblas', 'librocblas.so'],
]) {
  const sources = path.join(root, 'test', 'doubles', folder);
  const library = path.join(root, 'build', 'double', 'lib', name);
  const newest = Math.max(...readdirSync(sources).map((file) => statSync(path.join(sources, file)).mtimeMs));
  if (existsSync(library) && statSync(library).mtimeMs >= newest) continue;
  mkdirSync(path.dirname(library), { recursive: true });
  const warnings = ['-Wall', '-Wextra', '-Werror'];
  const kind = ['-std=c++20', '-O2', '-shared', '-fPIC', '-fvisibility=hidden'];
  execFileSync(
    process.env.CXX ?? 'g++',
    [...kind, ...warnings, '-o', library, path.join(sources, 'double.cc'), '-ldl', '-lpthread'],
    { stdio: 'inherit' },
  );
}
