// Which compiler builds the kernels of a target.
import { execFileSync } from 'node:child_process';
import { AMD_TARGETS } from './amd-targets.mjs';
import { fail } from './kernel-objects.mjs';

function works(compiler) {
  try {
    execFileSync(compiler, ['--version'], { stdio: 'pipe' });
    return true;
  } catch {
    return false;
  }
}

/** The compiler that the variable names, else the first candidate that runs. */
function chooseCompiler(variable, candidates, what, advice) {
  const named = process.env[variable];
  if (named) return works(named) ? named : fail(`${variable} is ${named}, which does not run`);
  return candidates.find(works) ?? fail(`no ${what} found (tried ${candidates.join(', ')}); ${advice}`);
}

/** The first line of a compiler that names its version: nvcc's is its last, the others' their first. */
export function versionOf(compiler) {
  const lines = execFileSync(compiler, ['--version'], { encoding: 'utf8' }).trim().split('\n');
  return /nvcc/.test(lines[0]) ? lines[lines.length - 1] : lines[0];
}

/** The compiler of the targets that run on this machine's processor. */
export function cppCompiler() {
  if (process.arch !== 'x64') fail(`the host target is for x86-64; this machine is ${process.arch}`);
  return chooseCompiler('CXX', ['g++', 'clang++'], 'C++ compiler', 'install g++');
}

/** The first release of clang that knows a target. */
const firstClang = (target) => AMD_TARGETS.find((known) => known.target === target)?.clang ?? 19;

/**
 * The compiler of a target: the named one, unless that is a clang that is too old for it; else ROCm's, else the oldest clang
 * that knows it, because what is verified here is what that compiles.
 */
export function hipCompiler(target) {
  const least = firstClang(target);
  const clangs = Array.from({ length: 12 }, (_, i) => `clang-${least + i}`);
  const named = process.env.HIPCC;
  const major = named && works(named) ? /clang version (\d+)/.exec(versionOf(named))?.[1] : undefined;
  if (major !== undefined && Number(major) < least) {
    return (
      clangs.find(works) ?? fail(`${target} needs clang ${least} or later; ${named} is ${major}, and there is no other`)
    );
  }
  return chooseCompiler(
    'HIPCC',
    ['hipcc', 'amdclang++', ...clangs],
    'HIP compiler',
    `install ROCm, or clang-${least} and lld-${least}`,
  );
}

/** The compiler of NVIDIA's targets. */
export const nvidiaCompiler = () => chooseCompiler('NVCC', ['nvcc'], 'CUDA compiler', 'install the CUDA toolkit');
