import { defineKernel, f32, i32, input, type KernelContract, output } from '../device/contract.js';
import { attentionPaged } from './attention.js';
import { FLOAT_TYPES, type FloatType } from './formats.js';
import { HEAD_DIMS, qkvOf, readCache, rowArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

/** The most rows of one tile of flash_attention_causal. */
export const FLASH_QUERIES = 32;

export const flashAttentionNocausal = (headDim: number) =>
  defineKernel({
    name: `flash_attention_nocausal_d${headDim}`,
    source: 'twins/flash_attention_nocausal.hip',
    summary: 'out = softmax(scale · q kᵀ) v, every query over every key',
    arguments: [
      input('q', 'f32', 'batch', 'rows', 'heads', `${headDim}`),
      input('k', 'f32', 'batch', 'columns', 'kv_heads', `${headDim}`),
      input('v', 'f32', 'batch', 'columns', 'kv_heads', `${headDim}`),
      output('out', 'f32', 'batch', 'rows', 'heads', `${headDim}`),
      i32('rows'),
      i32('columns'),
      i32('heads'),
      i32('kv_heads'),
      f32('scale'),
    ],
    grid: [{ of: 'heads' }, { of: 'rows', per: FLASH_QUERIES }, { of: 'batch' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.keys,
    tolerance: attentionPaged('f32', headDim).tolerance,
  });

export const flashAttentionCausal = (type: FloatType, headDim: number) =>
  defineKernel({
    name: `flash_attention_causal_${type}_d${headDim}`,
    source: 'twins/flash_attention_causal.hip',
    summary: 'causal attention of tiles of consecutive rows of one slot over the paged cache',
    arguments: [
      qkvOf(`${headDim}`),
      readCache('k_cache', type, `${headDim}`),
      readCache('v_cache', type, `${headDim}`),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      input('tiles', 'i32', 'tiles', '2'),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      f32('scale'),
    ],
    grid: [{ of: 'heads' }, { of: 'tiles' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.context,
    tolerance: attentionPaged(type, headDim).tolerance,
  });

export const flashAttentionContracts: readonly KernelContract[] = [
  ...HEAD_DIMS.flatMap((headDim) => [
    flashAttentionNocausal(headDim),
    ...FLOAT_TYPES.map((type) => flashAttentionCausal(type, headDim)),
  ]),
];
