import { expect, it } from 'vitest';
import { attentionPaged, flashAttentionCausal as contractOf, FLASH_QUERIES } from '../../src/executor/kernels/index.js';
import { flashAttentionCausal } from './reference/flash_attention_causal.js';
import { expectClose } from './support/compare.js';
import { chunks, type PagedCase, PagedStep, pagedCases, tilesOf } from './support/paged-cases.js';
import { onEachTarget, type Target } from './support/targets.js';

/** Heads of 512 in f32 are more than the LDS of a block holds: this reference kernel has them on the host alone. */
const fitsLds = ({ type, headDim }: PagedCase): boolean => type === 'f16' || headDim <= 256;

async function run(target: Target, step: PagedStep, most: number): Promise<Float32Array> {
  const { cache, qkv, rows, scale, placement, dimensions } = step;
  const tiles = tilesOf(rows, most);
  const { out } = await target.launch(
    contractOf(cache.type, cache.headDim),
    { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, tiles, scale },
    { ...dimensions, tiles: tiles.length / 2 },
  );
  return out as Float32Array;
}

onEachTarget('flash_attention_causal', (target) => {
  it('is causal attention of prompt chunks, with what came before in the cache, as attention_paged is row by row', () =>
    target.check(
      pagedCases(target.simulated ? 60 : 300).filter((shape) => !target.simulated || fitsLds(shape)),
      async (shape) => {
        const step = new PagedStep(shape, chunks(target.simulated ? 20 : 40));
        const expected = flashAttentionCausal(step.qkv, step.cache, step.rows, step.heads, step.scale);
        const contract = contractOf(shape.type, shape.headDim);
        const out = await run(target, step, FLASH_QUERIES);
        expectClose(contract, out, expected, {});

        const { placement, cache, qkv, scale, dimensions } = step;
        const rowByRow = await target.launch(
          attentionPaged(shape.type, shape.headDim),
          { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, window: 0, scale, softcap: 0 },
          dimensions,
        );
        const values = Float64Array.from(rowByRow.out!);
        expectClose(contract, out, { values, magnitudes: expected.magnitudes }, {});
      },
    ));

  it('gives a row the same bits in any tile', async () => {
    const shape = { type: 'f16', headDim: 64, kvHeads: 1, group: 2, lengths: [70], kind: 'normal', start: 1 } as const;
    const step = new PagedStep(shape, () => Array.from({ length: 40 }, (_, i) => ({ slot: 0, position: 30 + i })));
    const whole = await run(target, step, FLASH_QUERIES);
    for (const most of [1, 7, 16]) expect(await run(target, step, most)).toEqual(whole);
  });
});
