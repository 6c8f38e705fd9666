// Builds kernels/*.hip for the named targets into build/kernels/<target>/, each with a manifest.json.
//
//   node tools/build-kernels.mjs --target host,gfx1100,gfx942 [--twins] [--best] [--native] [--kernels DIR] [--output DIR]
//       [--only FILE.hip,FILE.hip]
//
//   host      one shared object each for x86-64-v3, x86-64-v4 and v4 with VNNI; the executor picks at load. --best builds the one
//             that it picks on this machine, --native one for this machine's processor alone.
//   lanes     for tests: shared objects that simulate every thread of a block, in waves of 32 (lanes32) and 64 (lanes64);
//             either name alone builds that one.
//   gfxNNNN   one HSACO code object a file. Compiler: $HIPCC, hipcc, amdclang++, then clang 19 or later, 22 or later where the
//             target asks for it. gfx11-generic and gfx12-generic run on later cards of their kind.
//   sm_NN     one cubin a file, for HIP's second platform. Compiler: $NVCC, nvcc.
//
// A target gets the kernels that something launches on it; lanes, those of any GPU and of the host. With --twins it gets all, into
// build/all-kernels/<target>/: what the full tests run, and no package holds. Names of targets and files are checked before
// anything is compiled.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readKernels } from './code-object.mjs';
import { cppCompiler, hipCompiler, nvidiaCompiler, versionOf } from './kernel-compilers.mjs';
import { childSeconds, fail, inParallel, isKept, trimCache } from './kernel-objects.mjs';
import { checkArguments, checkNames, checkSymbols, KernelSources, sha256 } from './kernel-sources.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'host' },
    best: { type: 'boolean', default: false },
    native: { type: 'boolean', default: false },
    kernels: { type: 'string', default: path.join(root, 'kernels') },
    output: { type: 'string' },
    only: { type: 'string' },
    twins: { type: 'boolean', default: false },
  },
});

/**
 * Builders of the kinds of targets.
 *
 * @type {[name: RegExp, build: (target: string) => Promise<unknown>][]}
 */
const BUILDERS = [
  [/^host$/, () => buildHost()],
  [/^lanes$/, async () => [await buildLanes(32), await buildLanes(64)]],
  [/^lanes(32|64)$/, (target) => buildLanes(Number(target.slice('lanes'.length)))],
  [/^gfx([0-9a-f]+|1[12]-generic)$/, (target) => buildAmd(target)],
  [/^sm_[0-9]+a?$/, (target) => buildNvidia(target)],
];
const builds = options.target.split(',').map((target) => {
  const [, builder] = BUILDERS.find(([pattern]) => pattern.test(target)) ?? [];
  if (builder) return () => builder(target);
  return fail(`unknown target "${target}"; use host, lanes, lanes32, lanes64, gfxNNNN or sm_NN`);
});
checkNames(options);
const kernelSources = await KernelSources.open(options);

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
/** @type {readonly Variant[]} */
const HOST_LEVELS = [
  { name: 'x86-64-v3', flags: ['-march=x86-64-v3'] },
  { name: 'x86-64-v4', flags: ['-march=x86-64-v4'] },
  {
    name: 'x86-64-v4-vnni',
    flags: ['-march=x86-64-v4', '-mavx512vnni'],
    only: ['matmul_quantized.hip'],
    others: 'x86-64-v4',
  },
];
const LANES_FLAGS = [
  '-std=c++17',
  '-O1',
  '-fPIC',
  '-fvisibility=hidden',
  // Else each use of the block that a thread runs is a call.
  '-ftls-model=initial-exec',
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
  // Two kernels that state the same arithmetic must compute the same bits: products are fused with sums where the source
  // says multiply_add, and nowhere else.
  '-ffp-contract=off',
  '--no-gpu-bundle-output',
  // Else a code object's hash depends on where the source lies.
  '-fuse-cuid=none',
];

const NVIDIA_FLAGS = ['-x', 'cu', '-std=c++17', '-O3', '-cubin', '--expt-relaxed-constexpr', '-fmad=false'];

const listFiles = (folder, suffix) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(suffix))
    .sort()
    .map((name) => path.join(folder, name));

/**
 * Builds one target unless its manifest says that it is current, or that a larger build is, whose files are these and more.
 *
 * @param {{ flags: readonly string[], larger?: readonly string[] }} keys what each build depends on beside sources and compiler
 */
async function build(target, { contracts, hash, output }, compiler, keys, symbolSuffix, steps) {
  const folder = path.join(output, target);
  const manifestFile = path.join(folder, 'manifest.json');
  const version = versionOf(compiler);
  const [key, ...others] = [keys.flags, ...(keys.larger ? [keys.larger] : [])].map((of) =>
    sha256(hash, version, JSON.stringify(of)),
  );
  if (existsSync(manifestFile)) {
    const manifest = JSON.parse(readFileSync(manifestFile, 'utf8'));
    const isWhole = ({ file, sha256: expected }) =>
      existsSync(path.join(folder, file)) && sha256(readFileSync(path.join(folder, file))) === expected;
    if ([key, ...others].includes(manifest.key) && manifest.files.every(isWhole)) return;
  }
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const started = Date.now();
  const before = childSeconds();
  const { files, compiled, kept } = await steps(folder, version);
  checkSymbols(target, contracts, folder, files, symbolSuffix);
  const manifest = {
    target,
    key,
    compiler: version,
    files: files.map((file) => {
      const image = readFileSync(path.join(folder, file));
      const described = { file, sha256: sha256(image) };
      if (file.endsWith('.so')) return described;
      const kernels = readKernels(image);
      for (const kernel of kernels) checkArguments(target, contracts, kernel);
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

/** Kernels that take longest to compile, the longest first: they begin first, or one core would end with one alone. */
const LONGEST = [
  ...['attention_rows', 'attention_encoder_rows', 'matmul_quantized', 'matmul', 'attention_paged'],
  ...['attention_tile_combine_rotated', 'matmul_packed', 'attention_tile_combine_q8_0', 'gate_up_normed'],
  ...['matmul_packed_tile', 'mamba_scan'],
];
const longestFirst = (a, b) => {
  const rank = ({ source }) => {
    const index = LONGEST.indexOf(path.basename(source, '.hip'));
    return index < 0 ? LONGEST.length : index;
  };
  return rank(a) - rank(b);
};

/** @typedef {{ name: string, flags: readonly string[], only?: readonly string[], others?: string }} Variant */

/**
 * Builds all sources as C++ into one shared object for each variant: its name and its own flags. A variant may name the
 * only sources that gain by its flags, and the variant whose objects the others are.
 *
 * @param {readonly Variant[]} all
 * @param {readonly Variant[]} wanted those that are built; of the others what these take is compiled
 */
async function buildShared(target, kernels, compiler, flags, all, wanted = all) {
  const { sources } = kernels;
  const keyOf = (/** @type {readonly Variant[]} */ built) => [
    ...flags,
    ...built.flatMap(({ name, flags: own }) => [name, ...own]),
  ];
  await build(target, kernels, compiler, { flags: keyOf(wanted), larger: keyOf(all) }, '', async (folder, version) => {
    const object = (source, name) => path.join(folder, `${path.parse(source).name}.${name}.o`);
    const isOwn = (source, /** @type {Variant} */ { only }) =>
      only === undefined || only.includes(path.basename(source));
    const objectOf = (source, /** @type {Variant} */ variant) =>
      object(source, isOwn(source, variant) ? variant.name : variant.others);
    const linked = new Set(wanted.flatMap((variant) => sources.map((source) => objectOf(source, variant))));
    // Half of what a kernel takes to compile is parsing the processor's own headers: for several, once is enough.
    const prelude = path.join(options.kernels, 'forge', 'device.h');
    const preludes = new Map(
      all.map(({ name }) => {
        const header = path.join(folder, `prelude-${name}.h`);
        writeFileSync(header, `#include "${prelude}"\n`);
        return [name, header];
      }),
    );
    const objects = all.flatMap((variant) =>
      sources
        .filter((source) => isOwn(source, variant) && linked.has(object(source, variant.name)))
        .map((source) => ({
          what: `${path.basename(source)} for ${variant.name}`,
          source,
          variant,
          compiler,
          output: object(source, variant.name),
          args: [
            ...flags,
            ...variant.flags,
            ...['-include', preludes.get(variant.name), '-I', options.kernels],
            ...['-c', '-x', 'c++', source, '-o', object(source, variant.name)],
          ],
          key: sha256(
            version,
            JSON.stringify([flags, variant.flags]),
            path.basename(source),
            kernelSources.hash(source),
          ),
        })),
    );
    const changed = objects.filter(({ key }) => !isKept(key));
    const isShared = (variant) => changed.filter((object) => object.variant === variant).length > 1;
    await inParallel(
      target,
      all.filter(isShared).map(({ name, flags: own }) => ({
        what: `prelude of ${name}`,
        compiler,
        output: `${preludes.get(name)}.gch`,
        args: [...flags, ...own, '-x', 'c++-header', preludes.get(name), '-o', `${preludes.get(name)}.gch`],
      })),
    );
    const count = await inParallel(target, objects.sort(longestFirst));
    await inParallel(
      target,
      wanted.map((variant) => ({
        what: `${variant.name}.so`,
        compiler,
        output: path.join(folder, `${variant.name}.so`),
        args: [
          '-shared',
          ...['-o', path.join(folder, `${variant.name}.so`)],
          ...sources.map((source) => objectOf(source, variant)),
        ],
      })),
    );
    for (const suffix of ['.o', '.h', '.gch']) for (const file of listFiles(folder, suffix)) rmSync(file);
    return { files: wanted.map(({ name }) => `${name}.so`), ...count };
  });
}

async function buildHost() {
  const compiler = cppCompiler();
  const isGcc = execFileSync(compiler, ['--version'], { encoding: 'utf8' }).includes('Free Software Foundation');
  const flags = [...HOST_FLAGS, ...(isGcc ? GCC_FLAGS : [])];
  /** @type {readonly Variant[]} */
  const levels = options.native ? [{ name: 'native', flags: ['-march=native'] }] : HOST_LEVELS;
  await buildShared(
    'host',
    kernelSources.of(['host']),
    compiler,
    flags,
    levels,
    options.best ? bestOf(levels) : levels,
  );
}

/** The level that the executor picks on this machine: the addon tells. */
function bestOf(/** @type {readonly Variant[]} */ levels) {
  const level = createRequire(import.meta.url)('node-gyp-build')(root).hostLevel();
  return [levels.find(({ name }) => name === level) ?? fail(`host kernels are not built for "${level}"`)];
}

async function buildLanes(wave) {
  const kernels = kernelSources.of(['portable', 'host'], { support: ['forge/lanes.cc'] });
  // Once more what multiplies tiles, as GPUs without matrix units do.
  const names = kernels.sources.map((source) => path.basename(source));
  const only = names.filter((name) => /^(lanes\.cc|(attention|gate_up_swiglu|matmul|matmul_packed)_tile)/.test(name));
  await buildShared(`lanes${wave}`, kernels, cppCompiler(), LANES_FLAGS, [
    { name: 'lanes', flags: [`-DFORGE_WAVE=${wave}`] },
    { name: 'dots', flags: [`-DFORGE_WAVE=${wave}`, '-DFORGE_TILE_DOTS'], only, others: 'lanes' },
  ]);
}

/** Builds one code object a source. */
async function buildCodeObjects(target, compiler, flags, suffix, symbolSuffix) {
  const kernels = kernelSources.of([target === 'sm_90' ? 'hopper' : 'portable']);
  const { sources } = kernels;
  await build(target, kernels, compiler, { flags }, symbolSuffix, async (folder, version) => {
    const object = (source) => path.join(folder, path.basename(source, '.hip') + suffix);
    const count = await inParallel(
      target,
      sources.map((source) => ({
        what: `${path.basename(source)} for ${target}`,
        compiler,
        output: object(source),
        args: [...flags, '-I', options.kernels, '-o', object(source), source],
        key: sha256(version, JSON.stringify(flags), path.basename(source), kernelSources.hash(source)),
      })),
    );
    return { files: sources.map((source) => path.basename(object(source))), ...count };
  });
}

async function buildAmd(target) {
  const compiler = hipCompiler(target);
  const wave = /^gfx9/.test(target) ? 64 : 32;
  // Generic targets are told apart by a field of version 6, which older runtimes do not read.
  const version = target.endsWith('-generic') ? 6 : 5;
  const flags = [...AMD_FLAGS, `-mcode-object-version=${version}`, `--offload-arch=${target}`, `-DFORGE_WAVE=${wave}`];
  await buildCodeObjects(target, compiler, flags, '.hsaco', '.kd');
}

/** Flags of a target; for sm_90 including the instructions that no later processor has. */
function architectureFlags(target) {
  if (target !== 'sm_90') return [`-arch=${target}`];
  return ['-gencode', 'arch=compute_90a,code=sm_90a'];
}

async function buildNvidia(target) {
  const compiler = nvidiaCompiler();
  await buildCodeObjects(target, compiler, [...NVIDIA_FLAGS, ...architectureFlags(target)], '.cubin', '');
}

trimCache();
for (const build of builds) await build();
