// What cards can do, for predictions: numbers that were not measured here, each with where it is from. Those without a
// source are assumptions, and named so in docs/amd-speed.md.

/** Cycles for which an instruction of a wave holds its SIMD's vector unit, by class; `scalar` units run beside it. */
const RDNA3 = { vector: 1, dot: 1, transcendental: 4, matrix: 32, scalar: 1, ldsBytesPerCycle: 128 };

/**
 * `units`: workgroup processors of RDNA, compute units of CDNA, four SIMDs each.
 * `readShare`: of the peak that a long read reaches. gfx1100: what is left of llama.cpp's 105.8 tokens/s of Llama-3-8B Q4_K_M
 * (llama.cpp#26284) for 4.65 GB where 941 nodes take 3.87 µs each; of gfx942 assumed. `latencyNs`: from a load to its value; assumed but for the
 * Infinity Cache of gfx1100, 150 ns (Chips and Cheese, "Latency Testing is Hard", 2023-06-14), to which VRAM is added.
 * `nodeUs`: of a replayed graph's node, `blockNs`: of each block that is sent, where blocks do nothing. gfx1100:
 * ROCm/rocm-systems#10834, W7900, 941 nodes of 1 and of 8,192 blocks; of the others nobody has published them.
 */
export const CARDS = {
  // RX 7900 XTX: 96 CUs, 2.5 GHz boost, 960 GB/s (AMD's product page). Matrix: AMD matrix instruction calculator 2ef9189.
  gfx1100: {
    ...{ name: 'RX 7900 XTX', units: 48, clockGhz: 2.5, memoryGBs: 960, l2GBs: 3500, cycles: RDNA3 },
    ...{ readShare: 0.83, latencyNs: 350, nodeUs: [3.87], blockNs: (9962 - 3865) / 8191 },
  },
  // RX 9070 XT: 64 CUs, 2.97 GHz boost, 640 GB/s. Products of bytes take 8 cycles, of f16 16 (same calculator).
  gfx1201: {
    ...{ name: 'RX 9070 XT', units: 32, clockGhz: 2.97, memoryGBs: 640, l2GBs: 3500, cycles: { ...RDNA3, matrix: 16 } },
    ...{ readShare: 0.83, latencyNs: 350, nodeUs: [3.87], blockNs: (9962 - 3865) / 8191 },
  },
  // MI300X: 304 CUs, 2.1 GHz, 5.3 TB/s (Chips and Cheese, "Testing AMD's Giant MI300X", 2024-06-25). A wave of 64 takes four
  // turns of a SIMD of 16; matrix: same calculator.
  gfx942: {
    ...{ name: 'MI300X', units: 304, clockGhz: 2.1, memoryGBs: 5300, l2GBs: 17_000 },
    cycles: { vector: 4, dot: 4, transcendental: 16, matrix: 16, scalar: 4, ldsBytesPerCycle: 128 },
    ...{ readShare: 0.8, latencyNs: 700, nodeUs: [1, 2, 4], blockNs: 0.75 },
  },
};

/** Bytes of LDS that an instruction moves at most: 16 a lane. */
const LDS_BYTES_A_LANE = 16;
const SIMDS = 4;
const LINE = 128;
/** Times that a launch waits for memory before anything is multiplied: for what says what to read, and for that. */
const WAITS = 2;

/**
 * @param launch blocks, wave (lanes), perBlock (wave-instructions by class), asked (lines that a block asks for), lines and
 *   shared (different ones of a block, and of them those that all blocks touch)
 * @returns microseconds on the device, without the node: `longest` of its parts at peak rates (of LDS as if every lane moved
 *   16 bytes, of the cache as if nothing that a block asks for again were nearer), which part that is, and `estimate`; and the
 *   bytes of memory that it reads
 */
export function predictLaunch(card, { blocks, wave, perBlock, asked, lines, shared }) {
  const { cycles, units, clockGhz } = card;
  const vector = ['vector', 'dot', 'transcendental', 'matrix'].reduce(
    (sum, name) => sum + perBlock[name] * cycles[name],
    0,
  );
  const scalar = (perBlock.scalar + perBlock.branch + perBlock.wait + perBlock.scalarLoad) * cycles.scalar;
  const lds = (perBlock.lds * wave * LDS_BYTES_A_LANE) / cycles.ldsBytesPerCycle;
  const most = Math.ceil(blocks / units);
  const us = (cyclesOfBlock) => (most * cyclesOfBlock) / (clockGhz * 1000);
  const memoryBytes = LINE * (shared + (lines - shared) * blocks);
  const parts = {
    vector: us(vector / SIMDS),
    scalar: us(scalar / SIMDS),
    lds: us(lds),
    memory: memoryBytes / (card.memoryGBs * 1000),
    cache: (LINE * asked * blocks) / (card.l2GBs * 1000),
    sending: (blocks * card.blockNs) / 1000,
  };
  const longest = Math.max(...Object.values(parts));
  const by = Object.keys(parts).find((name) => parts[name] === longest);
  const slowest = Math.max(...Object.values({ ...parts, memory: parts.memory / card.readShare }));
  return { longest, by, memoryBytes, parts, estimate: (WAITS * card.latencyNs) / 1000 + slowest };
}

/** Microseconds of a token: launches one after the other, each a node of the graph. */
export function predictToken(predictions, nodeUs) {
  return predictions.reduce((sum, { estimate, times }) => sum + times * (nodeUs + estimate), 0);
}
