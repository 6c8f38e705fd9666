// Limits of kernels, from a code object's own numbers: whether the hardware takes it, and how many of its waves fit.

/**
 * Resources of a kernel in a code object: registers a thread (vector) and a wave (scalar), bytes of LDS a block and of scratch a
 * thread.
 *
 * @typedef {{ name: string, wave: number, vgprs: number, sgprs: number, lds: number, scratch: number, vgprSpills: number }} KernelNumbers
 * @typedef {{ target: string, compiler: string, files: readonly { kernels: readonly KernelNumbers[] }[] }} Manifest
 */

/** Threads of a block of every GPU kernel: BLOCK of kernels/forge/amd.h. */
const BLOCK = 256;
const KIB = 1024;
/** Kernels whose time is that of their inner loop: a register that spills there is paid for in every turn. */
const INNER_LOOPS = /^(matmul|gate_up|gemm|small_gemm|attention|flash|qkt|weighted)/;

/**
 * Resources of one unit that shares LDS: a compute unit of CDNA, a workgroup processor (two compute units) of RDNA. `registers`
 * are a lane's, of all waves of a SIMD together, given out by `granule`.
 */
const CDNA = { simds: 4, wave: 64, registers: 512, granule: 8, waves: 8, lds: 64 * KIB, ldsGranule: 512 };
const RDNA = { simds: 4, wave: 32, registers: 1536, granule: 24, waves: 16, lds: 128 * KIB, ldsGranule: 1024 };
const SMALL_RDNA = { ...RDNA, registers: 1024, granule: 16 };
const HARDWARE = {
  gfx906: { ...CDNA, registers: 256, granule: 4, waves: 10 },
  gfx90a: CDNA,
  gfx942: CDNA,
  gfx950: { ...CDNA, lds: 160 * KIB, ldsGranule: 1280 },
  gfx1030: SMALL_RDNA,
  gfx1100: RDNA,
  gfx1101: RDNA,
  gfx1102: SMALL_RDNA,
  gfx1103: SMALL_RDNA,
  gfx1150: SMALL_RDNA,
  gfx1151: RDNA,
  gfx1152: SMALL_RDNA,
  gfx1200: RDNA,
  gfx1201: RDNA,
  // The least among those that run them.
  'gfx11-generic': SMALL_RDNA,
  'gfx12-generic': RDNA,
};
/** LDS that one block can have. */
const LDS_OF_BLOCK = 64 * KIB;

const roundUp = (n, multiple) => Math.ceil(n / multiple) * multiple;

/**
 * @param {string} target
 * @param {{ vgprs: number, lds: number, threads?: number }} kernel `threads`: of a block
 * @returns {{ blocks: number, waves: number, bound: string }} the blocks that fit on a unit at one time, the waves a SIMD that they
 *   are, and what bounds them
 */
export function occupancy(target, { vgprs, lds, threads = BLOCK }) {
  const { simds, wave, registers, granule, waves, ...memory } = HARDWARE[target];
  const wavesOfBlock = Math.ceil(threads / wave);
  const byRegisters = Math.min(waves, Math.floor(registers / Math.max(granule, roundUp(vgprs, granule))));
  const blocks = {
    waves: Math.floor((simds * waves) / wavesOfBlock),
    registers: Math.floor((simds * byRegisters) / wavesOfBlock),
    LDS: lds === 0 ? Number.POSITIVE_INFINITY : Math.floor(memory.lds / roundUp(lds, memory.ldsGranule)),
  };
  const fit = Math.min(...Object.values(blocks));
  const bound = Object.keys(blocks).find((name) => blocks[name] === fit) ?? '';
  return { blocks: fit, waves: (fit * wavesOfBlock) / simds, bound };
}

/**
 * Complaints about the kernels of a manifest, a line each; nothing when all is well.
 *
 * @param {Manifest} manifest
 * @returns {string[]}
 */
export function complaints({ target, files }) {
  const wave = HARDWARE[target].wave;
  return files
    .flatMap(({ kernels }) => kernels)
    .flatMap((kernel) => [
      ...(kernel.wave === wave ? [] : [`${kernel.name} has waves of ${kernel.wave}, ${target} is built for ${wave}`]),
      ...(kernel.lds <= LDS_OF_BLOCK
        ? []
        : [`${kernel.name} needs ${kernel.lds} bytes of LDS, a block has ${LDS_OF_BLOCK}`]),
      ...(INNER_LOOPS.test(kernel.name) && kernel.vgprSpills > 0
        ? [`${kernel.name} spills ${kernel.vgprSpills} vector registers`]
        : []),
      ...(occupancy(target, kernel).blocks > 0 ? [] : [`${kernel.name}: no block of it fits on ${target}`]),
    ])
    .map((complaint) => `${target}: ${complaint}`);
}

/**
 * A table of every kernel of a manifest: registers, LDS, scratch, spills and what of it fits.
 *
 * @param {Manifest} manifest
 * @returns {string[]}
 */
export function registerTable({ target, compiler, files }) {
  const kernels = files.flatMap(({ kernels: held }) => held).sort((a, b) => (a.name < b.name ? -1 : 1));
  const rows = kernels.map((kernel) => {
    const { blocks, waves, bound } = occupancy(target, kernel);
    const { name, vgprs, sgprs, lds, scratch, vgprSpills } = kernel;
    return `| \`${name}\` | ${vgprs} | ${sgprs} | ${lds} | ${scratch} | ${vgprSpills} | ${blocks} | ${waves} | ${bound} |`;
  });
  const { wave, simds } = HARDWARE[target];
  const unit = wave === 64 ? 'compute unit' : 'workgroup processor';
  return [
    `## ${target}`,
    '',
    `${kernels.length} kernels in waves of ${wave}, by ${compiler}. Blocks are those that fit on one ${unit} of ${simds} SIMDs.`,
    '',
    '| kernel | vector registers | scalar | LDS bytes | scratch | spills | blocks | waves a SIMD | bound by |',
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ...rows,
    '',
  ];
}
