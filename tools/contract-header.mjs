// The text of kernels/forge/contract.h: the numbers that kernels and TypeScript share, from where TypeScript states them.

/** Constants of src/executor/kernels/ that kernels take as they are. */
const NUMBERS = [
  ['tokens of a KV block', 'KV_BLOCK_TOKENS'],
  ['set in the token of an output row that no token could be drawn for', 'OUTPUT_NON_FINITE'],
  ['of a row that no mask restricts, and of one whose mask has not come in time', 'MASK_NONE', 'MASK_LATE'],
  ['positions of a split of a context', 'ATTENTION_SPLIT'],
  ['query heads of rows that a tile of attention_tile has at most', 'ATTENTION_TILE_QUERIES'],
  ['rows of a sequence that a tile of an encoder has at most', 'ENCODER_TILE_ROWS'],
  ['words that copy_chunks copies at a time', 'COPY_CHUNK'],
  [
    'threads and bytes of LDS of a block of attention_wide, and bytes where heads are larger',
    'ATTENTION_WIDE_THREADS',
    'ATTENTION_WIDE_LDS',
    'ATTENTION_WIDE_PARTS_LDS',
  ],
  [
    'what a block of attention_combine combines, few splits, and of more splits a block and blocks',
    'COMBINE_HEADS',
    'COMBINE_FEW',
    'COMBINE_SPLITS',
    'COMBINE_BLOCKS',
  ],
  ['heads that a block of rope_kv_append takes', 'ROPE_HEADS'],
  ['blocks that share a sampled row, and what each leaves of its part', 'SAMPLE_PARTS', 'SAMPLE_PART_WORDS'],
  ['the most of the likeliest tokens that come with a sampled one', 'TOP_LOGPROBS_MAX'],
  ['blocks that share a row’s filtering, and the bins of each', 'FILTER_PARTS', 'FILTER_BINS'],
  [
    'the most candidates of such a block and of a row, and words that filtering leaves',
    'PART_CANDIDATES',
    'ROW_CANDIDATES',
    'FILTER_WORDS',
  ],
  ['the most rows of a tile of flash_attention', 'FLASH_QUERIES'],
  ['elements of quantized activations that share a scale, and their bytes', 'Q8_BLOCK', 'Q8_BLOCK_BYTES'],
  [
    'what a block computes: elements of a row',
    'QUANTIZE_PART',
    'CONVERT_PART',
    'SWIGLU_PART',
    'SOFTCAP_PART',
    'POOL_PART',
    'COMBINE_PART',
    'SHORT_CONV_PART',
    'CAUSAL_CONV_PART',
  ],
  [
    'words of a slice whose rows are pooled, and what becomes of them',
    'POOL_WORDS',
    'POOL_MEAN',
    'POOL_MEAN_SO_FAR',
    'POOL_FIRST',
    'POOL_LAST',
  ],
  ['of what ranks computed', 'SUM_RANKS_PART', 'GATHER_RANKS_PART'],
  ['words of a meeting of ranks', 'WORDS_A_BARRIER'],
  ['words of a part in the table of block_sums and block_copy', 'SUMMED_PART_WORDS'],
  ['elements whose squares are one part of a sum, and the most parts of a row', 'NORM_PART', 'NORM_PARTS'],
  ['the most elements of a row that each block that multiplies it normalizes', 'NORMED_MOST'],
  ['rows of x', 'MATMUL_TOKENS', 'PACKED_TOKENS'],
  ['rows of the weight and of x on the host', 'MATMUL_HOST_ROWS', 'MATMUL_HOST_TOKENS'],
  ['rows of the weight, and of x', 'MATMUL_QUANTIZED_ROWS', 'MATMUL_QUANTIZED_TOKENS'],
  [
    'rows of a head’s weight and of x, and the longest of them',
    'HEADS_TILE_OUTS',
    'HEADS_TILE_ROWS',
    'HEADS_TILE_MOST_IN',
  ],
  ['rows of the weight', 'MATMUL_PACKED_ROWS'],
  ['rows of the weight and of x', 'PACKED_TILE', 'GEMM_TILE'],
  [
    'elements of a chunk of columns and fragments, and what a block that writes columns takes of a row',
    'FRAGMENT_CHUNK',
    'COLUMNS_PART',
  ],
  ['rows of a tile of weights in fragments', 'FRAGMENT_TILE_ROWS'],
  [
    'blocks that share a product of one row on Hopper, the most chunks of a segment, and LDS asked for',
    'LINEAR_DECODE_BLOCKS',
    'LINEAR_DECODE_CHUNKS',
    'LINEAR_DECODE_LDS',
  ],
  ['threads and bytes of LDS of a block of the wide linear forms', 'LINEAR_WIDE_THREADS', 'LINEAR_WIDE_LDS'],
  [
    'rows of an expert that a block multiplies at a time, and its bytes of LDS',
    'LINEAR_SEVERAL_ROWS',
    'LINEAR_SEVERAL_LDS',
  ],
  ['how a score becomes the weight of an expert', 'ROUTE_SOFTMAX', 'ROUTE_SIGMOID', 'ROUTE_CHOSEN'],
  ['the most experts that a layer has, and that a row is sent to', 'MOST_EXPERTS', 'MOST_USED_EXPERTS'],
  ['the most groups that its experts are in', 'MOST_EXPERT_GROUPS'],
  [
    'experts that a block scores of one row on Hopper, the most elements of such a row, and the most experts',
    'ROUTER_ROWS',
    'ROUTER_MOST_HIDDEN',
    'ROUTER_MOST_EXPERTS',
  ],
  ['words of a run of rows of an expert', 'RUN_WORDS'],
  ['rows that the convolution of a delta net sees', 'DELTA_TAPS'],
  ['rows of a head’s state that a block takes', 'DELTA_PART'],
  ['what rows of a Mamba state are a multiple of', 'MAMBA_ROWS'],
  ['words of a slice of states, and the state that there is not', 'SLICE_WORDS', 'NO_STATE'],
  ['columns of a replay row that one block writes', 'REPLAY_PART'],
  ['what the width of a weight on matrix units is a multiple of', 'TILE_INPUT_MULTIPLE'],
];

/**
 * @param {typeof import('../src/executor/kernels/index.js')} kernels compiled
 * @param {Readonly<Record<string, number>>} slotWords `SlotWord` of src/executor/model/slot-layout.ts
 * @returns {string}
 */
export function contractHeader(kernels, slotWords) {
  const constant = (name, value) => `constexpr int ${name} = ${value === -(2 ** 31) ? '-2147483647 - 1' : value};`;
  const macro = (name, uses) => [`#define ${name}(macro) \\`, `  ${uses.join(' ')}`];
  const formats = kernels.BLOCK_TYPES.map((type) => ({ type, name: type.toUpperCase(), ...kernels.blockFormat(type) }));
  return `${[
    '// The numbers that kernels and TypeScript share. Written by tools/build-kernels.mjs from src/executor/; do not edit.',
    '#pragma once',
    '',
    'namespace forge {',
    '',
    '// int32 words of a slot; src/shared/sampling-schema.ts says what they mean.',
    'enum SlotWord {',
    ...Object.entries(slotWords).map(([name, at]) => `  SLOT_${upperSnake(name)} = ${at},`),
    '};',
    '',
    ...NUMBERS.flatMap(([what, ...names]) => [
      `// ${what[0].toUpperCase()}${what.slice(1)}.`,
      ...names.map((name) => constant(name, number(kernels, name))),
    ]),
    '// Rows of the weight and of x that a block of each form of the matrix unit kernels computes.',
    ...Object.entries(kernels.TILE_VARIANTS).flatMap(([form, { rows, tokens }]) => [
      constant(`TILE_${form.toUpperCase()}_ROWS`, rows),
      constant(`TILE_${form.toUpperCase()}_TOKENS`, tokens),
    ]),
    '// Bytes of sixteen rows of a chunk of weights in fragments.',
    ...Object.entries(kernels.UNIT_BYTES).map(([format, bytes]) =>
      constant(`FRAGMENT_${format.toUpperCase()}_BYTES`, bytes),
    ),
    '// Chunks that a wave multiplies while as many are on their way, of a product of one row.',
    ...Object.entries(kernels.LINEAR_DECODE_BATCH).map(([format, chunks]) =>
      constant(`LINEAR_DECODE_${format.toUpperCase()}_BATCH`, chunks),
    ),
    '// Rows of the weight and of x that a block of each form of linear computes.',
    ...Object.entries(kernels.LINEAR_VARIANTS).flatMap(([form, { rows, columns }]) => [
      constant(`LINEAR_${form.toUpperCase()}_ROWS`, rows),
      constant(`LINEAR_${form.toUpperCase()}_COLUMNS`, columns),
    ]),
    '',
    '// Block formats of GGUF files.',
    ...formats.map(
      ({ name, blockElements, blockBytes }) =>
        `struct Format${name} {\n  static constexpr int ELEMENTS = ${blockElements}, BYTES = ${blockBytes};\n};`,
    ),
    '',
    '}  // namespace forge',
    '',
    '// `macro(type, Name)` for each block format: as kernels are called, and as its struct is.',
    ...macro(
      'FORGE_BLOCK_FORMATS',
      formats.map(({ type, name }) => `macro(${type}, ${name})`),
    ),
    '// The same of those that GPUs have planes for.',
    ...macro(
      'FORGE_PACKED_FORMATS',
      formats.filter(({ type }) => kernels.isPackedType(type)).map(({ type, name }) => `macro(${type}, ${name})`),
    ),
    '// `macro(d)` for each head size that attention, of any row, over a cache in q8_0, and on matrix units, is built for.',
    ...macro(
      'FORGE_HEAD_DIMS',
      kernels.HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    ...macro(
      'FORGE_PAGED_HEAD_DIMS',
      kernels.PAGED_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    ...macro(
      'FORGE_KV_Q8_HEAD_DIMS',
      kernels.KV_Q8_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    ...macro(
      'FORGE_TILE_HEAD_DIMS',
      kernels.TILE_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    '// The same of neighbouring rows on a CPU.',
    ...macro(
      'FORGE_ROWS_HEAD_DIMS',
      kernels.ROWS_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    ...macro(
      'FORGE_ROWS_Q8_HEAD_DIMS',
      kernels.ROWS_Q8_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    '// The same of tiles of an encoder.',
    ...macro(
      'FORGE_ENCODER_TILE_HEAD_DIMS',
      kernels.ENCODER_TILE_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    '// The same of larger ones.',
    ...macro(
      'FORGE_LARGE_HEAD_DIMS',
      kernels.LARGE_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    '// The same of those of its kernels over a cache in q8_0, of those that do more in one launch, and of those for Hopper.',
    ...macro(
      'FORGE_TILE_Q8_HEAD_DIMS',
      kernels.TILE_Q8_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    ...macro(
      'FORGE_FUSED_HEAD_DIMS',
      kernels.FUSED_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
    ...macro(
      'FORGE_WIDE_HEAD_DIMS',
      kernels.WIDE_HEAD_DIMS.map((d) => `macro(${d})`),
    ),
  ].join('\n')}\n`;
}

const upperSnake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase();

function number(kernels, name) {
  const value = kernels[name];
  if (!Number.isInteger(value)) throw new Error(`src/executor/kernels states no ${name}`);
  return value;
}
