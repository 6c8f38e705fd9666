// Capabilities of cards, for predictions: numbers that were not measured here, each with where it is from. Those without a
// source are assumptions, and named so in docs/evidence/amd-predictions.md.

/**
 * Cycles for which an instruction of a wave holds its SIMD's vector unit, by class; `scalar` units run beside it. Of a unit in a cycle: `ldsPasses`
 * over 32 banks (RDNA whitepaper: two arrays of 32 banks a workgroup processor) and `nearLines`, lines of 128 bytes out of the nearest
 * cache (same: 128 bytes a compute unit).
 */
const RDNA3 = { vector: 1, dot: 1, transcendental: 4, matrix: 32, scalar: 1, ldsPasses: 2, nearLines: 2 };

/**
 * @typedef {object} Card
 * @property {string} name
 * @property {number} units of four SIMDs each
 * @property {number} clockGhz
 * @property {number} memoryGBs
 * @property {number} l2GBs
 * @property {number} readShare
 * @property {Readonly<Record<'far' | 'near' | 'lds' | 'scalar' | 'issue', number>>} latency
 * @property {readonly number[]} nodeUs
 * @property {number} blockNs
 * @property {Readonly<Record<string, number>>} cycles by class
 */

/**
 * Numbers of a block, but `blocks`, those of the launch, and `resident`, those that fit on a unit.
 *
 * @typedef {object} CountedLaunch
 * @property {number} blocks
 * @property {number} resident
 * @property {Readonly<Record<string, number>>} perBlock wave-instructions by class
 * @property {number} ldsPasses
 * @property {number} asked lines that it asks for
 * @property {number} touched bytes of memory
 * @property {number} [cached] bytes through the second cache, where that is not what it touches
 * @property {number} shared bytes of memory that all blocks touch
 * @property {number} chain nanoseconds that it takes alone
 * @property {number} [longestChain] of the slowest block, where that is known
 * @property {number} head nanoseconds until what it reads first is there
 * @property {number} drain nanoseconds after what it reads last is there
 */

/**
 * @typedef {object} Prediction
 * @property {number} longest microseconds of the longest of its parts at peak rates, of the second cache as if the nearest kept what a
 *   block asks for again
 * @property {string} by which part that is
 * @property {number} memoryBytes that it reads
 * @property {Readonly<Record<string, number>>} parts
 * @property {number} waiting microseconds that the blocks take one after the other where so many fit as fit
 * @property {number} estimate microseconds: the longest part, memory at the share of its peak that long reads reach, between the first
 *   block's wait and the last one's end; or `waiting`, if that is longer
 */

/**
 * `units`: workgroup processors of RDNA, compute units of CDNA, four SIMDs each.
 * `readShare`: of the peak that a long read reaches. Of RDNA 3 measured on an RX 7700 XT: 380.32 of 432 GB/s, coalesced reads
 * (ProjectPhysX/OpenCL-Benchmark 4694a5b, README); for gfx1201 and gfx942 assumed.
 * `latency`, nanoseconds from an instruction to its value: `far` beyond the caches, `near` out of the second cache, `lds`,
 * `scalar`; `issue`, from one instruction of a wave to its next. Assumed, but that 150 of `far` are the Infinity Cache's of gfx1100 (Chips
 * and Cheese, "Latency Testing is Hard", 2023-06-14); `issue` as if no instruction waited for the one before.
 * `nodeUs`: of a replayed graph's node, `blockNs`: of each block that is sent, where blocks do nothing. gfx1100:
 * ROCm/rocm-systems#10834, W7900, 941 nodes of 1 and of 8,192 blocks; of the others nobody has published them.
 *
 * @type {Readonly<Record<string, Card>>}
 */
export const CARDS = {
  // RX 7900 XTX: 96 CUs, 2.5 GHz boost, 960 GB/s (AMD's product page). Matrix: AMD matrix instruction calculator 2ef9189.
  gfx1100: {
    ...{ name: 'RX 7900 XTX', units: 48, clockGhz: 2.5, memoryGBs: 960, l2GBs: 3500, cycles: RDNA3 },
    ...{ readShare: 0.88, latency: { far: 350, near: 120, lds: 25, scalar: 100, issue: 0.4 } },
    ...{ nodeUs: [3.87], blockNs: (9962 - 3865) / 8191 },
  },
  // RX 9070 XT: 64 CUs, 2.97 GHz boost, 640 GB/s. Products of bytes take 8 cycles, of f16 16 (same calculator).
  gfx1201: {
    ...{ name: 'RX 9070 XT', units: 32, clockGhz: 2.97, memoryGBs: 640, l2GBs: 3500, cycles: { ...RDNA3, matrix: 16 } },
    ...{ readShare: 0.88, latency: { far: 350, near: 120, lds: 25, scalar: 100, issue: 0.34 } },
    ...{ nodeUs: [3.87], blockNs: (9962 - 3865) / 8191 },
  },
  // MI300X: 304 CUs, 2.1 GHz, 5.3 TB/s (Chips and Cheese, "Testing AMD's Giant MI300X", 2024-06-25). A wave of 64 takes four
  // turns of a SIMD of 16; matrix: same calculator; 64 bytes of the nearest cache and 128 of LDS a cycle (CDNA 3 whitepaper).
  gfx942: {
    ...{ name: 'MI300X', units: 304, clockGhz: 2.1, memoryGBs: 5300, l2GBs: 17_000 },
    cycles: { vector: 4, dot: 4, transcendental: 16, matrix: 16, scalar: 4, ldsPasses: 1, nearLines: 0.5 },
    ...{ readShare: 0.8, latency: { far: 700, near: 240, lds: 60, scalar: 100, issue: 1.9 } },
    ...{ nodeUs: [1, 2, 4], blockNs: 0.75 },
  },
  // H200, not to predict but to be held against what was measured: bench/gpu/replay.cu machine, 2026-11-24, driver 580.159, for l2GBs, readShare
  // (4,484 of 4,800 GB/s), far, near, nodes and blocks; lds is an H100's 29 cycles (Luo and others, arXiv 2402.13499).
  // Cycles: throughput of arithmetic instructions, CUDA C++ Programming Guide; `scalar` is an instruction's turn, of any kind.
  sm_90: {
    ...{ name: 'H200', units: 132, clockGhz: 1.98, memoryGBs: 4800, l2GBs: 6300 },
    cycles: { vector: 2, dot: 1, transcendental: 8, matrix: 4, scalar: 1, ldsPasses: 1, nearLines: 1 },
    ...{ readShare: 4484 / 4800, latency: { far: 345, near: 146, lds: 15, scalar: 15, issue: 0.5 } },
    ...{ nodeUs: [0.486], blockNs: (5385 - 486) / 8191 },
  },
};

const SIMDS = 4;

/**
 * @param {Card} card
 * @param {CountedLaunch} launch
 * @returns {Prediction} of the time on the device, without the node
 */
export function predictLaunch(card, { blocks, resident, perBlock, ...census }) {
  const { ldsPasses, asked, touched, cached = touched, shared, chain, longestChain = chain, head, drain } = census;
  const { cycles, units, clockGhz } = card;
  const vector = ['vector', 'dot', 'transcendental', 'matrix'].reduce(
    (sum, name) => sum + perBlock[name] * cycles[name],
    0,
  );
  const scalar = (perBlock.scalar + perBlock.branch + perBlock.wait + perBlock.scalarLoad) * cycles.scalar;
  const most = Math.ceil(blocks / units);
  const us = (cyclesOfBlock) => (most * cyclesOfBlock) / (clockGhz * 1000);
  const memoryBytes = shared + (touched - shared) * blocks;
  const parts = {
    vector: us(vector / SIMDS),
    scalar: us(scalar / SIMDS),
    lds: us(ldsPasses / cycles.ldsPasses),
    near: us(asked / cycles.nearLines),
    memory: memoryBytes / (card.memoryGBs * 1000),
    cache: (cached * blocks) / (card.l2GBs * 1000),
    sending: (blocks * card.blockNs) / 1000,
  };
  const longest = Math.max(...Object.values(parts));
  const by = Object.keys(parts).find((name) => parts[name] === longest) ?? '';
  const slowest = Math.max(...Object.values({ ...parts, memory: parts.memory / card.readShare }));
  const rounds = Math.max(1, blocks / (units * resident));
  const waiting = ((rounds - 1) * chain + longestChain) / 1000;
  const estimate = Math.max(waiting, slowest + (head + drain) / 1000);
  return { longest, by, memoryBytes, parts, waiting, estimate };
}

/**
 * Microseconds of a token: launches one after the other, each a node of the graph.
 *
 * @param {readonly { estimate: number, times: number }[]} predictions
 * @param {number} nodeUs
 * @returns {number}
 */
export function predictToken(predictions, nodeUs) {
  return predictions.reduce((sum, { estimate, times }) => sum + times * (nodeUs + estimate), 0);
}
