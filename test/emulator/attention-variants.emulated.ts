import { it } from 'vitest';
import {
  attentionPaged,
  attentionSplit,
  flashAttentionCausal,
  flashAttentionNocausal,
  HEAD_DIMS,
} from '../../src/executor/kernels/index.js';
import { attentionPaged as pagedReference } from '../kernels/reference/attention_paged.js';
import { attentionSplit as splitReference } from '../kernels/reference/attention_split.js';
import { flashAttentionCausal as causalReference } from '../kernels/reference/flash_attention_causal.js';
import { flashAttentionNocausal as nocausalReference } from '../kernels/reference/flash_attention_nocausal.js';
import { expectClose } from '../kernels/support/compare.js';
import { PagedStep } from '../kernels/support/paged-cases.js';
import { onEachTarget } from '../kernels/support/targets.js';
import { fill, Random } from '../kernels/support/values.js';

// The kernels' own tests draw a head size a case, too few cases on the emulator for every variant. Here each runs once:
// the last three rows of a sequence of two KV blocks.
const LENGTH = 19;
const ROWS = 3;

function stepOf(type: 'f32' | 'f16', headDim: number): PagedStep {
  const shape = { type, headDim, kvHeads: 1, group: 2, lengths: [LENGTH], kind: 'normal', start: headDim } as const;
  return new PagedStep(shape, () => Array.from({ length: ROWS }, (_, i) => ({ slot: 0, position: LENGTH - ROWS + i })));
}

const variants = HEAD_DIMS.flatMap((headDim) => (['f32', 'f16'] as const).map((type) => [type, headDim] as const));

onEachTarget('attention_paged', (target) => {
  it.each(variants)('%s, head size %i', async (type, headDim) => {
    const step = stepOf(type, headDim);
    const { cache, qkv, scale, placement, dimensions, rows, heads } = step;
    const contract = attentionPaged(type, headDim);
    const { out } = await target.launch(
      contract,
      { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, window: 0, scale, softcap: 0 },
      dimensions,
    );
    expectClose(contract, out!, pagedReference(qkv, cache, rows, heads, scale), {});
  });
});

onEachTarget('attention_split', (target) => {
  it.each(variants)('%s, head size %i', async (type, headDim) => {
    const step = stepOf(type, headDim);
    const { cache, qkv, scale, placement, dimensions, rows, heads } = step;
    const contract = attentionSplit(type, headDim);
    const width = headDim + 2;
    const parts = new Float32Array(rows.length * heads * width);
    const result = await target.launch(
      contract,
      { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, scale, parts, splits: 1 },
      dimensions,
    );
    rows.forEach(({ slot, position }, row) => {
      for (let head = 0; head < heads; head++) {
        const part = (result.parts as Float32Array).slice(
          (row * heads + head) * width,
          (row * heads + head + 1) * width,
        );
        const range = [0, position + 1] as const;
        const expected = splitReference(step.query(row, head), cache, slot, step.kvHead(head), range, scale);
        const values = part.subarray(2).map((value) => value / part[1]!);
        expectClose(contract, values, expected, {});
      }
    });
  });
});

onEachTarget('flash_attention_causal', (target) => {
  it.each(variants)('%s, head size %i', async (type, headDim) => {
    const { cache, qkv, scale, placement, dimensions, rows, heads } = stepOf(type, headDim);
    const contract = flashAttentionCausal(type, headDim);
    const { out } = await target.launch(
      contract,
      { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, tiles: Int32Array.of(0, ROWS), scale },
      { ...dimensions, tiles: 1 },
    );
    expectClose(contract, out!, causalReference(qkv, cache, rows, heads, scale), {});
  });
});

onEachTarget('flash_attention_nocausal', (target) => {
  it.each(HEAD_DIMS.map((headDim) => [headDim] as const))('head size %i', async (headDim) => {
    const random = new Random(headDim);
    const [batch, rows, columns, heads, kvHeads] = [1, ROWS, LENGTH, 2, 1];
    const scale = Math.fround(1 / Math.sqrt(headDim));
    const q = fill('normal', rows * heads * headDim, random);
    const k = fill('normal', columns * kvHeads * headDim, random);
    const v = fill('normal', columns * kvHeads * headDim, random);
    const contract = flashAttentionNocausal(headDim);
    const { out } = await target.launch(
      contract,
      { q, k, v, rows, columns, heads, kv_heads: kvHeads, scale },
      { batch },
    );
    expectClose(
      contract,
      out!,
      nocausalReference(q, k, v, { batch, rows, columns, heads, kvHeads, headDim }, scale),
      {},
    );
  });
});
