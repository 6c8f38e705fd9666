import { aligned, defineKernel, f32, i32, inout, input, type KernelContract, output, rowsApart } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { elementwise, exact, roundings, stored } from '../tolerance.js';

/** Tokens a KV block holds; `KV_BLOCK_TOKENS` of `kernels/forge/slot.h`. */
export const KV_BLOCK_TOKENS = 16;
/** The most alternatives log_softmax_top returns. */
export const TOP_LOGPROBS_MAX = 20;
/** Words of one sampled row's output: token, log probability, ids, log probabilities. */
export const OUTPUT_WORDS = 2 + 2 * TOP_LOGPROBS_MAX;
/** Set in the token of a row that none could be drawn for; `OUTPUT_NON_FINITE` of `kernels/forge/slot.h`. */
export const OUTPUT_NON_FINITE = 0x80000000 | 0;
/** Head sizes that attention is built for. */
export const HEAD_DIMS: readonly number[] = [8, 16, 32, 48, 64, 80, 96, 112, 128, 256];

/** Element types a KV cache may have. */
export type FloatType = 'f32' | 'f16';
/** Element types of weights that are no block formats. */
export type WeightFloatType = FloatType | 'bf16';

const EXACT = exact('values are moved, not computed');
const slotArguments = [input('slots', 'i32', 'slot_count', 'slot_words')] as const;

export const slotWrite = defineKernel({
  name: 'slot_write',
  source: 'slot_write.hip',
  summary: 'slots[index[i]] = value[i]',
  arguments: [
    inout('slots', 'i32', 'slot_count', 'slot_words'),
    input('writes', 'i32', 'writes', '2'),
    input('count', 'i32', '1'),
  ],
  grid: [{ of: 'writes', per: 'block' }],
  tolerance: EXACT,
});

/** What embedding_gather takes beside its table. */
export const embeddingArguments = [
  output('y', 'f32', 'tokens', 'hidden'),
  input('row_token', 'i32', 'tokens'),
  input('row_slot', 'i32', 'tokens'),
  ...slotArguments,
  i32('slot_words'),
  i32('hidden'),
] as const;

export const embeddingGather = (type: WeightFloatType) =>
  defineKernel({
    name: `embedding_gather_${type}`,
    source: 'embedding_gather.hip',
    summary: 'y[t] = table[token of row t]',
    arguments: [input('table', type, 'vocabulary', 'hidden'), ...embeddingArguments],
    grid: [{ of: 'tokens' }],
    tolerance: EXACT,
  });

export const gatherRows = defineKernel({
  name: 'gather_rows',
  source: 'gather_rows.hip',
  summary: 'y[s] = x[index[s]]',
  arguments: [
    input('x', 'f32', 'tokens', 'hidden'),
    output('y', 'f32', 'samples', 'hidden'),
    input('index', 'i32', 'samples'),
    i32('hidden'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: EXACT,
});

export const rmsNorm = defineKernel({
  name: 'rms_norm',
  source: 'rms_norm.hip',
  summary: 'y = x / sqrt(mean(x²) + eps) * weight',
  arguments: [
    aligned(16, input('x', 'f32', 'rows', 'hidden')),
    input('weight', 'f32', 'hidden'),
    output('y', 'f32', 'rows', 'hidden'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  inPlace: [['x', 'y']],
  order: ORDER.row,
  tolerance: roundings(
    '(hidden / 8 + 16) · 2⁻²⁴ · |reference|: the sum of squares has only positive terms, taken 8 or more at a time',
    ({ hidden }) => hidden! / 8 + 16,
  ),
});

export const headNorm = defineKernel({
  name: 'head_norm',
  source: 'head_norm.hip',
  summary: 'x / sqrt(mean(x²) + eps) * weight, for each head of q and k by itself, in place',
  arguments: [
    inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim'),
    input('query_weight', 'f32', 'head_dim'),
    input('key_weight', 'f32', 'head_dim'),
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
    f32('eps'),
  ],
  grid: [{ of: 'heads + kv_heads', per: 'waves' }, { of: 'tokens' }],
  order: ORDER.dot,
  tolerance: roundings(
    '(head_dim / 8 + 16) · 2⁻²⁴ · |reference|: the sum of squares has only positive terms, taken 8 or more at a time',
    (sizes) => sizes.head_dim! / 8 + 16,
  ),
});

export const matmul = (type: WeightFloatType) =>
  defineKernel({
    name: `matmul_${type}`,
    source: 'matmul.hip',
    summary: 'y[t][n] = sum_k weight[n][k] * x[t][k]',
    arguments: [
      input('weight', type, 'out', 'in'),
      rowsApart('x_stride', input('x', 'f32', 'rows', 'in')),
      rowsApart('y_stride', inout('y', 'f32', 'rows', 'out')),
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('in'),
      i32('x_stride'),
      i32('y_stride'),
    ],
    grid: [
      { of: 'out', per: 'waves' },
      { of: 'rows', per: 64 },
    ],
    order: ORDER.dot,
    tolerance: roundings(
      '(in / 32 + 24) · 2⁻²⁴ · sum |weight · x|: 32 or more partial sums of in / 32 terms, and a tail of at most 15',
      (sizes) => sizes.in! / 32 + 24,
    ),
  });

export const residualAdd = defineKernel({
  name: 'residual_add',
  source: 'residual_add.hip',
  summary: 'x += y',
  arguments: [inout('x', 'f32', 'rows', 'hidden'), input('y', 'f32', 'rows', 'hidden'), i32('hidden')],
  grid: [{ of: 'rows' }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

export const swiglu = defineKernel({
  name: 'swiglu',
  source: 'swiglu.hip',
  summary: 'y = silu(gate) * up',
  arguments: [input('gate_up', 'f32', 'rows', '2', 'ffn'), output('y', 'f32', 'rows', 'ffn'), i32('ffn')],
  grid: [{ of: 'rows' }],
  tolerance: elementwise,
});

export const ropeKvAppend = (type: FloatType) =>
  defineKernel({
    name: `rope_kv_append_${type}`,
    source: 'rope_kv_append.hip',
    summary: 'rotates q in place and k into the cache by their position; stores v as it is',
    arguments: [
      inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim'),
      inout('k_cache', type, 'blocks', 'kv_heads', '16', 'head_dim'),
      inout('v_cache', type, 'blocks', 'kv_heads', '16', 'head_dim'),
      input('cosine', 'f32', 'max_position', 'half_rotary'),
      input('sine', 'f32', 'max_position', 'half_rotary'),
      input('row_position', 'i32', 'tokens'),
      input('row_slot', 'i32', 'tokens'),
      ...slotArguments,
      i32('slot_words'),
      i32('heads'),
      i32('kv_heads'),
      i32('head_dim'),
      i32('rotary'),
      i32('adjacent'),
    ],
    grid: [{ of: 'heads + 2 * kv_heads' }, { of: 'tokens' }],
    multiples: [['rotary', '2']],
    tolerance: stored(
      type,
      roundings('3 · 2⁻²⁴ · (|a| + |b|) of the pair (a, b): two products and their sum', () => 3),
    ),
  });

export const attentionPaged = (type: FloatType, headDim: number) =>
  defineKernel({
    name: `attention_paged_${type}_d${headDim}`,
    source: 'attention_paged.hip',
    summary: 'out = softmax(scale · q kᵀ) v over positions 0 .. row_position',
    arguments: [
      input('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', `${headDim}`),
      input('k_cache', type, 'blocks', 'kv_heads', '16', `${headDim}`),
      input('v_cache', type, 'blocks', 'kv_heads', '16', `${headDim}`),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      input('row_position', 'i32', 'tokens'),
      input('row_slot', 'i32', 'tokens'),
      ...slotArguments,
      i32('slot_words'),
      i32('heads'),
      i32('kv_heads'),
      f32('scale'),
    ],
    grid: [{ of: 'heads' }, { of: 'tokens' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.context,
    tolerance: roundings(
      '32 · 2⁻²⁴ · max |v| · (1 + max scale · √(sum (q k)²)): weights sum to 1, a score’s error passes through e^x, and ' +
        'rounding errors of at most 256 terms in order stray by 2 · √256',
      () => 32,
    ),
  });

export const sample = defineKernel({
  name: 'sample',
  source: 'sample.hip',
  on: 'host',
  summary: 'next token: temperature, top_k, top_p, min_p, then argmax of logit / temperature + Gumbel noise',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    input('sample_row', 'i32', 'samples'),
    input('row_position', 'i32', 'tokens'),
    input('row_slot', 'i32', 'tokens'),
    inout('slots', 'i32', 'slot_count', 'slot_words'),
    inout('output', 'i32', 'samples', 'output_words'),
    i32('slot_words'),
    i32('output_words'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: exact('where the reference is not within rounding of a tie or of a filter’s edge'),
});

export const logSoftmaxTop = defineKernel({
  name: 'log_softmax_top',
  source: 'log_softmax_top.hip',
  summary: 'log probability of the sampled token and of the n likeliest',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    input('sample_row', 'i32', 'samples'),
    input('row_slot', 'i32', 'tokens'),
    ...slotArguments,
    inout('output', 'i32', 'samples', '2 + 2 * top_max'),
    i32('slot_words'),
    i32('top_max'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'samples' }],
  order: ORDER.row,
  tolerance: elementwise,
});

export const promptLogprobs = defineKernel({
  name: 'prompt_logprobs',
  source: 'prompt_logprobs.hip',
  summary: 'log probability of a prompt’s next token and of the n likeliest',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    input('draws', 'i32', '1'),
    input('target', 'i32', 'samples', '2'),
    inout('output', 'i32', 'samples', '2 + 2 * top_max'),
    i32('top_max'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'prompt_rows' }],
  order: ORDER.row,
  tolerance: elementwise,
});

/** The kernels of the forward pass. */
export const forwardContracts: readonly KernelContract[] = [
  slotWrite,
  embeddingGather('f32'),
  embeddingGather('f16'),
  embeddingGather('bf16'),
  gatherRows,
  rmsNorm,
  headNorm,
  matmul('f32'),
  matmul('f16'),
  matmul('bf16'),
  residualAdd,
  swiglu,
  ropeKvAppend('f32'),
  ropeKvAppend('f16'),
  ...HEAD_DIMS.flatMap((headDim) => [attentionPaged('f32', headDim), attentionPaged('f16', headDim)]),
  sample,
  logSoftmaxTop,
  promptLogprobs,
];
