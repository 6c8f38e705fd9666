// llama.cpp's launches for one token of Llama-3-8B on an AMD card of RDNA 3, as its ggml-cuda.cu, mmvq.cu, fattn-tile.cuh and
// llama-graph.cpp say: kernel, grid, block, arguments. Written from reading them; nothing of it was run there.
import { COUNTED_BASE } from '../../../dist/executor/load/counting-device.js';

const SHAPE = { hidden: 4096, ffn: 14_336, heads: 32, kvHeads: 8, headDim: 128, vocab: 128_256, layers: 32 };
/** Columns of the KV cache are asked for by the hundred: its padding. */
const KV_PAD = 256;
/** Rows of products are padded to so many columns. */
const ROW_PADDING = 512;
const QUANTIZE_BLOCK = 256;
const SWIGLU = 2;
const TYPES = {
  Q4_K: { number: 12, waves: 1, bytes: 144, block: 256 },
  Q5_K: { number: 13, waves: 1, bytes: 176, block: 256 },
  Q6_K: { number: 14, waves: 2, bytes: 210, block: 256 },
};
/** Types in files: the type of most products, of v and down in half of the layers, and of the vocabulary's. */
export const FILES = {
  Q4_K_M: { most: 'Q4_K', some: 'Q6_K', output: 'Q6_K' },
  Q5_K_M: { most: 'Q5_K', some: 'Q6_K', output: 'Q6_K' },
};

const i32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
};
const f32 = (value) => {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return bytes;
};
const i64 = (value) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  return bytes;
};
const none = i64(0);
const i32s = (...values) => values.map(i32);
const i64s = (...values) => values.map(i64);

/** A divisor as its kernels divide by multiplying: high word, shift, itself. */
function divisor(d) {
  const shift = d === 1 ? 0 : Math.ceil(Math.log2(d));
  const high = ((2n ** 32n * (2n ** BigInt(shift) - BigInt(d))) / BigInt(d) + 1n) & 0xffff_ffffn;
  const bytes = Buffer.alloc(12);
  bytes.writeUInt32LE(Number(high), 0);
  bytes.writeUInt32LE(shift, 4);
  bytes.writeUInt32LE(d, 8);
  return bytes;
}
const one = divisor(1);

/**
 * @param file     of FILES
 * @param position tokens before this one
 * @param canHold    (kernel, threads) => blocks of it that fit on a workgroup processor
 * @returns the launches of a token in order, those of layers once with how many `times`
 */
export function launchesOfToken({ file, position, units, canHold }) {
  const { most, some, output } = FILES[file];
  const { hidden, ffn, heads, kvHeads, headDim, vocab, layers } = SHAPE;
  let free = COUNTED_BASE + 2 ** 20;
  const place = (bytes) => {
    const address = free;
    free += Math.ceil(bytes / 4096) * 4096 + 4096;
    return i64(address);
  };
  const rowOf = (columns) => place(columns * 4);
  const half = layers / 2;
  const norm = (times) => ({
    ...{
      kernel: 'void rms_norm_f32<1024, true, false>(',
      source: 'norm',
      times,
      grid: [1, 1, 1],
      block: [1024, 1, 1],
      dynamicLds: 128,
    },
    arguments: [
      ...[rowOf(hidden), rowOf(hidden), i32(hidden), ...i64s(hidden, hidden, hidden), f32(1e-5)],
      ...[rowOf(hidden), ...i64s(hidden, hidden, hidden), divisor(hidden), one, one, one],
      ...[none, ...i64s(0, 0, 0), Buffer.alloc(12), Buffer.alloc(12), Buffer.alloc(12), Buffer.alloc(12)],
    ],
  });
  const quantize = (columns, times) => {
    const padded = Math.ceil(columns / ROW_PADDING) * ROW_PADDING;
    return {
      ...{ kernel: 'quantize_q8_1(', source: 'quantize', times },
      ...{ grid: [Math.ceil(padded / QUANTIZE_BLOCK), 1, 1], block: [QUANTIZE_BLOCK, 1, 1] },
      arguments: [
        rowOf(columns),
        place((padded / 32) * 36),
        ...i64s(columns, columns, columns, columns, padded),
        i32(1),
        one,
      ],
    };
  };
  /** A product and what is done with it in the same launch: `bias` is added, of `gate` and up SwiGLU is taken. */
  const product = (type, columns, rows, times, { bias = false, gate = false } = {}) => {
    const { number, waves, bytes, block } = TYPES[type];
    const weights = () => place((rows * columns * bytes) / block);
    const padded = Math.ceil(columns / ROW_PADDING) * ROW_PADDING;
    const strides = i32s((columns / block) * rows, padded / 32, rows);
    const fused = bias || gate ? 1 : 0;
    return [
      quantize(columns, times),
      {
        ...{ kernel: `_Z13mul_mat_vec_qIL9ggml_type${number}ELi1ELb${fused}E`, source: 'mmvq', times },
        ...{ grid: [rows, 1, 1], block: [32, waves, 1] },
        arguments: [
          ...[weights(), place((padded / 32) * 36), none],
          Buffer.concat([bias ? rowOf(rows) : none, gate ? weights() : none, none, none, none, i32(SWIGLU), f32(0)]),
          ...[rowOf(rows), i32(columns), Buffer.alloc(12), ...i32s(columns / block, padded / 32, rows)],
          ...[one, ...strides, one, ...strides, i32(0)],
        ],
      },
    ];
  };
  const rope = (ofHeads, kind, rows) => ({
    ...{ kernel: `void rope_norm<true, false, float, ${kind}>(`, source: 'rope', times: layers },
    ...{ grid: [ofHeads, 1, 1], block: [1, 256, 1] },
    arguments: [
      ...[
        rowOf(ofHeads * headDim),
        rowOf(ofHeads * headDim),
        ...i32s(headDim, ofHeads, 1, headDim, ofHeads * headDim, ofHeads * headDim),
      ],
      ...[...i32s(headDim, ofHeads * headDim, ofHeads * headDim, headDim, 0), place(4), f32(1), f32(0), f32(1)],
      ...[
        Buffer.concat([f32(0), f32(0)]),
        f32(500_000 ** (-2 / headDim)),
        none,
        rows ? place(8) : none,
        i32(rows ? ofHeads * headDim : 0),
        Buffer.from([0]),
      ],
    ],
  });
  const wide = kvHeads * headDim;
  const store = {
    ...{
      kernel: 'void k_set_rows<float, long, __half>(',
      source: 'set-rows',
      times: layers,
      grid: [wide / 256, 1, 1],
      block: [256, 1, 1],
    },
    arguments: [
      ...[rowOf(wide), place(8), rowOf(wide), ...i64s(wide, 1, 1, 1, 1, wide, wide, wide, 1, 1, 1, wide, wide, wide)],
      ...[divisor(wide), one, one, one, one],
    ],
  };
  const known = Math.ceil((position + 1) / KV_PAD) * KV_PAD;
  const tileKernel = 'void flash_attn_tile<128, 128, 1, 4, false>(';
  const parallel = parallelBlocks({
    tiles: Math.ceil(known / 64),
    groups: kvHeads,
    most: canHold(tileKernel, 128),
    units,
  });
  const [row, headRow] = [headDim * 2 * kvHeads, headDim * 2];
  const attention = {
    ...{ kernel: tileKernel, source: 'fattn-tile', times: layers, grid: [1, parallel, kvHeads], block: [32, 4, 1] },
    arguments: [
      ...[rowOf(heads * headDim), place(known * row), place(known * row), place(known * 2), none, none],
      ...[place(parallel * heads * headDim * 4), place(parallel * heads * 8)],
      ...[f32(headDim ** -0.5), f32(0), f32(1), f32(1), i32(heads), f32(0)],
      ...[i32(headDim), one, ...i32s(heads, 1, heads * headDim * 4, headDim * 4, heads * headDim * 4)],
      ...[...i32s(headDim, known, kvHeads, 1, row, headRow), i64(known * row), ...i32s(row, headRow), i64(known * row)],
      ...[...i32s(1, 1, 1, known * 2, known * 2), i64(known * 2)],
    ],
  };
  const combine = {
    ...{ kernel: 'void flash_attn_combine_results<128>(', source: 'fattn-tile', times: layers },
    ...{ grid: [1, heads, 1], block: [headDim, 1, 1], dynamicLds: parallel * 8 },
    arguments: [
      place(parallel * heads * headDim * 4),
      place(parallel * heads * 8),
      rowOf(heads * headDim),
      i32(parallel),
    ],
  };
  return [
    norm(2 * layers + 1),
    ...product(most, hidden, hidden, layers),
    ...product(most, hidden, wide, layers + half),
    ...product(some, hidden, wide, half),
    rope(heads, 'float', false),
    rope(kvHeads, '__half', true),
    store,
    attention,
    ...(parallel > 1 ? [combine] : []),
    ...product(most, heads * headDim, hidden, layers, { bias: true }),
    ...product(most, hidden, ffn, layers, { gate: true }),
    ...product(most, ffn, hidden, half, { bias: true }),
    ...product(some, ffn, hidden, half, { bias: true }),
    ...product(output, hidden, vocab, 1),
  ];
}

/** Parts that the keys of a head are shared out in: as many as fit, more where that fills the card better. */
function parallelBlocks({ tiles, groups, most, units }) {
  const atOnce = units * most;
  let best = { parallel: Math.min(most, tiles), efficiency: 0, turns: 0 };
  for (let parallel = best.parallel; parallel <= tiles; parallel += 1) {
    const turns = Math.ceil((groups * parallel) / atOnce);
    const efficiency = Math.floor((100 * groups * parallel) / (turns * atOnce));
    if (best.efficiency >= 95 && turns > best.turns) break;
    if (efficiency > best.efficiency) best = { parallel, efficiency, turns };
  }
  return best.parallel;
}
