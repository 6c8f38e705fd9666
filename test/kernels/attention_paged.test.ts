import fc from 'fast-check';
import { expect, it } from 'vitest';
import { attentionSinks, attentionPaged as contractOf, KV_Q8_HEAD_DIMS } from '../../src/executor/kernels/index.js';
import { attentionPaged } from './reference/attention_paged.js';
import { type QuantizedCache, quantizeCache } from './reference/kv_q8.js';
import { expectClose } from './support/compare.js';
import { lastAndInner, PagedStep, pagedCases } from './support/paged-cases.js';
import { onEachTarget, type Target } from './support/targets.js';

/** Runs the step, or only its rows `first` .. `end` - 1; over its cache in q8_0 where there is one. */
async function run(
  target: Target,
  step: PagedStep,
  { first = 0, end = step.rows.length, scale = step.scale, window = 0, softcap = 0 } = {},
  quantized?: QuantizedCache,
) {
  const { qkv, rows, placement, dimensions } = step;
  const cache = quantized ?? step.cache;
  const width = qkv.length / rows.length;
  const { out } = await target.launch(
    contractOf(quantized === undefined ? step.cache.type : 'q8_0', cache.headDim),
    {
      ...placement,
      row_position: placement.row_position.slice(first, end),
      row_slot: placement.row_slot.slice(first, end),
      qkv: qkv.slice(first * width, end * width),
      k_cache: cache.k,
      v_cache: cache.v,
      window,
      scale,
      softcap,
    },
    { ...dimensions, tokens: end - first },
  );
  return out as Float32Array;
}

const plain = { type: 'f32', headDim: 32, kvHeads: 2, group: 2, kind: 'normal', start: 5 } as const;

onEachTarget('attention_paged', (target) => {
  it('attends to the positions up to the row’s own, through the block table, a KV head a group of heads', () =>
    target.check(pagedCases(target.simulated ? 300 : 600), async (shape) => {
      const step = new PagedStep(shape, lastAndInner);
      const expected = attentionPaged(step.qkv, step.cache, step.rows, step.heads, step.scale);
      expectClose(contractOf(shape.type, shape.headDim), await run(target, step), expected, {});
    }));

  it('lets a sink take its part of each head’s weights', () =>
    target.check(
      fc.tuple(pagedCases(target.simulated ? 300 : 600), fc.constantFrom(0, 5, 128), fc.constantFrom(-50, 0, 3, 60)),
      async ([drawn, window, level]) => {
        const step = new PagedStep({ ...drawn, headDim: 64 }, lastAndInner);
        const sinks = Float32Array.from({ length: step.heads }, (_, head) => level + head);
        const { qkv, placement, dimensions, cache, scale } = step;
        const values = { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, sinks, window, scale };
        const contract = attentionSinks(cache.type, 64);
        const result = await target.launch(contract, values, { ...dimensions, tokens: step.rows.length });
        const expected = attentionPaged(step.qkv, step.cache, step.rows, step.heads, scale, { window, sinks });
        expectClose(contract, result.out as Float32Array, expected, {});
      },
    ));

  it('sees the latest positions alone where there is a window, and caps scores', () =>
    target.check(
      fc.tuple(
        pagedCases(target.simulated ? 300 : 600),
        fc.constantFrom(0, 1, 5, 16, 100, 128, 200),
        fc.constantFrom(0, 0.5, 20),
      ),
      async ([shape, window, softcap]) => {
        const step = new PagedStep(shape, lastAndInner);
        const expected = attentionPaged(step.qkv, step.cache, step.rows, step.heads, step.scale, { window, softcap });
        const out = await run(target, step, { window, softcap });
        expectClose(contractOf(shape.type, shape.headDim), out, expected, {});
      },
    ));

  it('takes a cache in q8_0 for the numbers that its blocks stand for, in any window', () =>
    target.check(
      fc.tuple(
        pagedCases(target.simulated ? 150 : 300),
        fc.constantFrom(...KV_Q8_HEAD_DIMS),
        fc.constantFrom(0, 5, 100),
        fc.constantFrom(0, 20),
      ),
      async ([drawn, headDim, window, softcap]) => {
        const step = new PagedStep({ ...drawn, headDim }, lastAndInner);
        const quantized = quantizeCache(step.cache);
        const sizes = { window, softcap };
        const expected = attentionPaged(step.qkv, quantized, step.rows, step.heads, step.scale, sizes);
        expectClose(contractOf('q8_0', headDim), await run(target, step, sizes, quantized), expected, {});
      },
    ));

  it('takes keys for values, too, in a cache that has them once: latent attention', () =>
    target.check(
      fc.tuple(pagedCases(target.simulated ? 150 : 300), fc.integer({ min: 1, max: 20 })),
      async ([drawn, group]) => {
        const step = new PagedStep({ ...drawn, headDim: 576, kvHeads: 1, group }, lastAndInner);
        const { cache } = step;
        const context = (_which: 'k' | 'v', slot: number, head: number) => cache.context('k', slot, head);
        const same = { headDim: 576, kvHeads: 1, context };
        const expected = attentionPaged(step.qkv, same, step.rows, step.heads, step.scale);
        const { qkv, placement, dimensions, scale } = step;
        const values = { ...placement, qkv, k_cache: cache.k, v_cache: cache.k, window: 0, scale, softcap: 0 };
        const contract = contractOf(cache.type, 576);
        const { out } = await target.launch(contract, values, { ...dimensions, tokens: step.rows.length });
        expectClose(contract, out as Float32Array, expected, {});
      },
      Math.min(target.runs, target.simulated ? 10 : 100),
    ));

  it('survives scores far apart', async () => {
    const step = new PagedStep({ ...plain, lengths: [40] }, lastAndInner);
    const out = await run(target, step, { end: 2, scale: 500 });
    expectClose(contractOf('f32', 32), out, attentionPaged(step.qkv, step.cache, step.rows, 4, 500), {});
  });

  it.each(['f32', 'q8_0'])('gives a row the same bits alone and among others, %s', async (type) => {
    const step = new PagedStep({ ...plain, lengths: [300, 20] }, () => [
      ...[299, 256, 255, 16, 0].map((position) => ({ slot: 0, position })),
      { slot: 1, position: 19 },
    ]);
    const quantized = type === 'q8_0' ? quantizeCache(step.cache) : undefined;
    const together = await run(target, step, {}, quantized);
    for (const row of step.rows.keys()) {
      expect(await run(target, step, { first: row, end: row + 1 }, quantized)).toEqual(
        together.slice(row * 4 * 32, (row + 1) * 4 * 32),
      );
    }
  });
});
