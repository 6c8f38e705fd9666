// Builds kernels/*.hip for the named targets into build/kernels/<target>/, each with a manifest.json.
//
//   node tools/build-kernels.mjs --target host,gfx1100,gfx942 [--native] [--kernels DIR] [--output DIR]
//       [--only FILE.hip,FILE.hip]
//
//   host      one shared object each for x86-64-v3, x86-64-v4 and v4 with VNNI; the executor picks at load. --native builds for
//             this machine's processor alone.
//   lanes     for tests: shared objects that simulate every thread of a block, lanes32 and lanes64.
//   gfxNNNN   one HSACO code object a file. Compiler: $HIPCC, hipcc, amdclang++, then clang 19 or later.
//   sm_NN     one cubin a file, for HIP's second platform. Compiler: $NVCC, nvcc.
//
// An object is kept under build/cache by what it was made of: source, the headers it includes, flags and compiler. What did
// not change is not compiled again, in whatever target or folder it is wanted.
import { execFile, execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { loadableSymbols, readKernels } from './code-object.mjs';

const run = promisify(execFile);
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'host' },
    native: { type: 'boolean', default: false },
    kernels: { type: 'string', default: path.join(root, 'kernels') },
    output: { type: 'string', default: path.join(root, 'build', 'kernels') },
    only: { type: 'string' },
  },
});

const HOST_FLAGS = [
  '-std=c++17',
  '-O3',
  '-fPIC',
  '-fvisibility=hidden',
  '-fopenmp-simd',
  '-fno-math-errno',
  '-fno-trapping-math',
  '-mprefer-vector-width=512',
  '-Wall',
  '-Wextra',
  '-Werror',
  '-Wno-unused-function',
  '-Wno-unknown-pragmas',
  // GCC 12 warns inside its own AVX-512 header.
  '-Wno-maybe-uninitialized',
];
const LANES_FLAGS = [
  '-std=c++17',
  '-O1',
  '-fPIC',
  '-fvisibility=hidden',
  '-march=x86-64-v3',
  '-DFORGE_LANES',
  '-Wall',
  '-Wextra',
  '-Werror',
  '-Wno-unused-function',
  '-Wno-unknown-pragmas',
];
// Peeling a loop until its pointer is aligned would make the order of a sum depend on where a row lies in memory.
const GCC_FLAGS = ['--param', 'vect-max-peeling-for-alignment=0'];
const AMD_FLAGS = [
  '-x',
  'hip',
  '--cuda-device-only',
  '-nogpuinc',
  '-nogpulib',
  '-std=c++17',
  '-O3',
  '-mcode-object-version=5',
  // Two kernels that state the same arithmetic must compute the same bits: products are fused with sums where the source
  // says multiply_add, and nowhere else.
  '-ffp-contract=off',
  '--no-gpu-bundle-output',
  // Else a code object's hash depends on where the source lies.
  '-fuse-cuid=none',
];

const NVIDIA_FLAGS = ['-x', 'cu', '-std=c++17', '-O3', '-cubin', '--expt-relaxed-constexpr', '-fmad=false'];

/** Ends the build with one line on stderr. */
function fail(message) {
  console.error(`build-kernels: ${message}`);
  process.exit(1);
}

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

const sha256 = (...parts) => parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex');
const listFiles = (folder, suffix) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(suffix))
    .sort()
    .map((name) => path.join(folder, name));

/** Every kernel that the executor's contracts name, with the file it is in. */
async function loadContracts() {
  const file = path.join(root, 'dist', 'executor', 'kernels', 'contracts', 'index.js');
  if (!existsSync(file)) fail('the contracts are not compiled; run "npm run build:ts" first');
  return (await import(pathToFileURL(file).href)).allContracts;
}

const isWanted = (source) => options.only === undefined || options.only.split(',').includes(source);
const contracts = (await loadContracts()).filter(({ source }) => isWanted(source));
for (const { name, source } of contracts) {
  if (!existsSync(path.join(options.kernels, source))) fail(`${source} is missing: it holds the kernel ${name}`);
}

/** Fails unless each contract's kernel is a symbol of one of the built files. */
function checkSymbols(target, folder, files, suffix) {
  const symbols = files.map((file) => loadableSymbols(readFileSync(path.join(folder, file))));
  for (const { name, source } of contracts) {
    if (!symbols.some((names) => names.has(name + suffix))) fail(`${source} for ${target} holds no kernel ${name}`);
  }
}

/** Fails unless the kernel's own metadata has the arguments that its contract states, each aligned to its size. */
function checkArguments(target, kernel) {
  const contract = contracts.find(({ name }) => name === kernel.name);
  if (contract === undefined) return;
  let end = 0;
  const expected = contract.arguments.map(({ kind }) => {
    const bytes = kind === 'buffer' ? 8 : 4;
    const offset = Math.ceil(end / bytes) * bytes;
    end = offset + bytes;
    return { offset, bytes, kind };
  });
  const text = (list) => list.map(({ offset, bytes, kind }) => `${kind} of ${bytes} at ${offset}`).join(', ');
  if (text(kernel.arguments) !== text(expected)) {
    fail(`${kernel.name} for ${target} takes ${text(kernel.arguments)}; its contract says ${text(expected)}`);
  }
}

// Whether a manifest is current depends on the contracts' arguments too: it was held against them.
const contractsHash = sha256(
  JSON.stringify(contracts.map(({ name, source, arguments: taken }) => [name, source, taken.map(({ kind }) => kind)])),
);
const sources = listFiles(options.kernels, '.hip').filter((file) => isWanted(path.basename(file)));
if (sources.length === 0) fail(`no kernels in ${options.kernels}`);
const sourceHash = sha256(...sources.flatMap((file) => [path.basename(file), hashWithHeaders(file)]));

/** Hash of a source and of every header that it includes, however deep; all of them lie under the kernels' folder. */
function hashWithHeaders(file, seen = new Set()) {
  if (seen.has(file)) return '';
  seen.add(file);
  const text = readFileSync(file, 'utf8');
  const included = [...text.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm)].map(([, name]) =>
    [path.dirname(file), options.kernels]
      .map((folder) => path.resolve(folder, name))
      .find((found) => existsSync(found)),
  );
  return sha256(text, ...included.map((found) => (found === undefined ? '' : hashWithHeaders(found, seen))));
}

/** The first line of a compiler that names its version: nvcc's is its last, the others' their first. */
function versionOf(compiler) {
  const lines = execFileSync(compiler, ['--version'], { encoding: 'utf8' }).trim().split('\n');
  return /nvcc/.test(lines[0]) ? lines.at(-1) : lines[0];
}

const CACHE = path.join(root, 'build', 'cache');
/** Objects that nothing has used for so long are forgotten. */
const CACHE_DAYS = 14;

/** Forgets what nothing has used for a while. */
function trimCache() {
  if (!existsSync(CACHE)) return;
  const oldest = Date.now() - CACHE_DAYS * 24 * 3600 * 1000;
  for (const name of readdirSync(CACHE)) {
    const file = path.join(CACHE, name);
    if (statSync(file).mtimeMs < oldest) rmSync(file, { recursive: true, force: true });
  }
}

const isKept = (key) => existsSync(path.join(CACHE, key));

/** Whether an object that was made of the same is there; then it is put in place. */
function fromCache(job) {
  if (job.key === undefined || !isKept(job.key)) return false;
  const kept = path.join(CACHE, job.key);
  copyFileSync(kept, job.output);
  const now = new Date();
  utimesSync(kept, now, now);
  return true;
}

/** Keeps an object for whoever wants the same; whole or not at all, since several builds may run. */
function intoCache(job) {
  if (job.key === undefined) return;
  mkdirSync(CACHE, { recursive: true });
  const writing = path.join(CACHE, `${job.key}.${process.pid}`);
  copyFileSync(job.output, writing);
  renameSync(writing, path.join(CACHE, job.key));
}

/**
 * Makes each job's output, as many at a time as there are cores; the first failure ends the build with the compiler's
 * words.
 *
 * @returns how many were compiled, and how many were there already
 */
async function inParallel(target, jobs) {
  const queue = jobs.filter((job) => !fromCache(job));
  const count = { compiled: queue.length, kept: jobs.length - queue.length };
  const showsProgress = process.stderr.isTTY && queue.length > 1;
  let done = 0;
  const worker = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) {
      try {
        await run(job.compiler, job.args, { maxBuffer: 1 << 26 });
      } catch (error) {
        fail(`${job.what} did not compile:\n${error.stderr || error.message}`);
      }
      if (!existsSync(job.output)) fail(`${job.compiler} said nothing and wrote no ${job.output}`);
      intoCache(job);
      done += 1;
      if (showsProgress) process.stderr.write(`\rkernels: ${target} ${done}/${count.compiled} ${job.what}\x1b[K`);
    }
  };
  await Promise.all(Array.from({ length: os.availableParallelism() }, worker));
  if (showsProgress) process.stderr.write('\r\x1b[K');
  return count;
}

/** Builds one target unless its manifest says that it is current. */
async function build(target, compiler, flags, symbolSuffix, steps) {
  const folder = path.join(options.output, target);
  const manifestFile = path.join(folder, 'manifest.json');
  const version = versionOf(compiler);
  const key = sha256(sourceHash, contractsHash, version, JSON.stringify(flags));
  if (existsSync(manifestFile)) {
    const manifest = JSON.parse(readFileSync(manifestFile, 'utf8'));
    if (manifest.key === key && manifest.files.every(({ file }) => existsSync(path.join(folder, file)))) return;
  }
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const started = Date.now();
  const before = childSeconds();
  const { files, compiled, kept } = await steps(folder, version);
  checkSymbols(target, folder, files, symbolSuffix);
  const manifest = {
    target,
    key,
    compiler: version,
    files: files.map((file) => {
      const image = readFileSync(path.join(folder, file));
      const described = { file, sha256: sha256(image) };
      if (file.endsWith('.so')) return described;
      const kernels = readKernels(image);
      for (const kernel of kernels) checkArguments(target, kernel);
      return { ...described, kernels };
    }),
  };
  writeFileSync(manifestFile, `${JSON.stringify(manifest)}\n`);
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  const processor = (childSeconds() - before).toFixed(1);
  console.log(
    `kernels: ${target} built in ${seconds} s, ${processor} s of processor time, with ${version}: ` +
      `${compiled} compiled, ${kept} kept`,
  );
}

/** Processor time of the compilers that have ended, in seconds; 0 where the system does not tell. */
function childSeconds() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
    // cutime and cstime, in ticks of which every Linux that Node runs on has 100 a second.
    return (Number(fields[13]) + Number(fields[14])) / 100;
  } catch {
    return 0;
  }
}

function cppCompiler() {
  if (process.arch !== 'x64') fail(`the host target is for x86-64; this machine is ${process.arch}`);
  return chooseCompiler('CXX', ['g++', 'clang++'], 'C++ compiler', 'install g++');
}

/**
 * Builds all sources as C++ into one shared object for each variant: its name and its own flags. A variant may name the
 * only sources that gain by its flags, and the variant whose objects the others are.
 */
async function buildShared(target, compiler, flags, variants) {
  await build(
    target,
    compiler,
    [...flags, ...variants.flatMap((variant) => variant.flags)],
    '',
    async (folder, version) => {
      const object = (source, name) => path.join(folder, `${path.basename(source, '.hip')}.${name}.o`);
      const isOwn = (source, { only }) => only === undefined || only.includes(path.basename(source));
      // Half of what a kernel takes to compile is parsing the processor's own headers: once a variant is enough.
      const prelude = path.join(options.kernels, 'forge', 'device.h');
      const preludes = new Map(
        variants.map(({ name }) => {
          const header = path.join(folder, `prelude-${name}.h`);
          writeFileSync(header, `#include "${prelude}"\n`);
          return [name, header];
        }),
      );
      const objects = variants.flatMap((variant) =>
        sources
          .filter((source) => isOwn(source, variant))
          .map((source) => ({
            what: `${path.basename(source)} for ${variant.name}`,
            variant,
            compiler,
            output: object(source, variant.name),
            args: [
              ...flags,
              ...variant.flags,
              ...['-include', preludes.get(variant.name)],
              ...['-c', '-x', 'c++', source, '-o', object(source, variant.name)],
            ],
            key: sha256(
              version,
              JSON.stringify([flags, variant.flags]),
              path.basename(source),
              hashWithHeaders(source),
            ),
          })),
      );
      const changed = new Set(objects.filter(({ key }) => !isKept(key)).map(({ variant }) => variant));
      await inParallel(
        target,
        [...changed].map(({ name, flags: own }) => ({
          what: `prelude of ${name}`,
          compiler,
          output: `${preludes.get(name)}.gch`,
          args: [...flags, ...own, '-x', 'c++-header', preludes.get(name), '-o', `${preludes.get(name)}.gch`],
        })),
      );
      const count = await inParallel(target, objects);
      await inParallel(
        target,
        variants.map((variant) => ({
          what: `${variant.name}.so`,
          compiler,
          output: path.join(folder, `${variant.name}.so`),
          args: [
            '-shared',
            ...['-o', path.join(folder, `${variant.name}.so`)],
            ...sources.map((source) => object(source, isOwn(source, variant) ? variant.name : variant.others)),
          ],
        })),
      );
      for (const suffix of ['.o', '.h', '.gch']) for (const file of listFiles(folder, suffix)) rmSync(file);
      return { files: variants.map(({ name }) => `${name}.so`), ...count };
    },
  );
}

async function buildHost() {
  const compiler = cppCompiler();
  const isGcc = execFileSync(compiler, ['--version'], { encoding: 'utf8' }).includes('Free Software Foundation');
  const levels = options.native
    ? [{ name: 'native', flags: ['-march=native'] }]
    : [
        { name: 'x86-64-v3', flags: ['-march=x86-64-v3'] },
        { name: 'x86-64-v4', flags: ['-march=x86-64-v4'] },
        {
          name: 'x86-64-v4-vnni',
          flags: ['-march=x86-64-v4', '-mavx512vnni'],
          only: ['matmul_quantized.hip'],
          others: 'x86-64-v4',
        },
      ];
  await buildShared('host', compiler, [...HOST_FLAGS, ...(isGcc ? GCC_FLAGS : [])], levels);
}

async function buildLanes() {
  for (const wave of [32, 64]) {
    await buildShared(`lanes${wave}`, cppCompiler(), LANES_FLAGS, [{ name: 'lanes', flags: [`-DFORGE_WAVE=${wave}`] }]);
  }
}

/** Builds one code object a source. */
async function buildCodeObjects(target, compiler, flags, suffix, symbolSuffix) {
  await build(target, compiler, flags, symbolSuffix, async (folder, version) => {
    const object = (source) => path.join(folder, path.basename(source, '.hip') + suffix);
    const count = await inParallel(
      target,
      sources.map((source) => ({
        what: `${path.basename(source)} for ${target}`,
        compiler,
        output: object(source),
        args: [...flags, '-o', object(source), source],
        key: sha256(version, JSON.stringify(flags), path.basename(source), hashWithHeaders(source)),
      })),
    );
    return { files: sources.map((source) => path.basename(object(source))), ...count };
  });
}

async function buildAmd(target) {
  // The oldest that can: what is verified here is what it compiles.
  const clangs = Array.from({ length: 12 }, (_, i) => `clang-${19 + i}`);
  const compiler = chooseCompiler(
    'HIPCC',
    ['hipcc', 'amdclang++', ...clangs],
    'HIP compiler',
    'install ROCm, or clang-19 and lld-19',
  );
  const wave = /^gfx9/.test(target) ? 64 : 32;
  const flags = [...AMD_FLAGS, `--offload-arch=${target}`, `-DFORGE_WAVE=${wave}`];
  await buildCodeObjects(target, compiler, flags, '.hsaco', '.kd');
}

async function buildNvidia(target) {
  const compiler = chooseCompiler('NVCC', ['nvcc'], 'CUDA compiler', 'install the CUDA toolkit');
  await buildCodeObjects(target, compiler, [...NVIDIA_FLAGS, `-arch=${target}`], '.cubin', '');
}

trimCache();
for (const target of options.target.split(',')) {
  if (target === 'host') await buildHost();
  else if (target === 'lanes') await buildLanes();
  else if (/^gfx[0-9a-f]+$/.test(target)) await buildAmd(target);
  else if (/^sm_[0-9]+a?$/.test(target)) await buildNvidia(target);
  else fail(`unknown target "${target}"; use host, lanes, gfxNNNN or sm_NN`);
}
