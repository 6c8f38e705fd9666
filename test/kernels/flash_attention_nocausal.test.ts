import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  causalMask,
  flashAttentionNocausal as contractOf,
  HEAD_DIMS,
  qktMatmul,
  scale as scaleOf,
  softmax,
  weightedMatmul,
} from '../../src/executor/kernels/index.js';
import { flashAttentionNocausal } from './reference/flash_attention_nocausal.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('flash_attention_nocausal', (target) => {
  const most = target.simulated ? 40 : 100;

  it('attends to every key, and equals its unfused twin', () =>
    target.check(
      fc.tuple(
        fc.record({ batch: size(3), rows: size(most), columns: size(most) }),
        fc.record({
          kvHeads: fc.integer({ min: 1, max: 2 }),
          group: fc.integer({ min: 1, max: 3 }),
          // Heads of 512 in f32 are more than the LDS of a block holds.
          headDim: fc.constantFrom(...HEAD_DIMS.filter((headDim) => !target.simulated || headDim <= 256)),
        }),
        fills('normal', 'zeros', 'ones', 'denormal'),
        seed,
      ),
      async ([{ batch, rows, columns }, { kvHeads, group, headDim }, kind, start]) => {
        const random = new Random(start);
        const heads = kvHeads * group;
        const scale = Math.fround(1 / Math.sqrt(headDim));
        const q = fill(kind, batch * rows * heads * headDim, random);
        const [k, v] = [0, 1].map(() => fill(kind, batch * columns * kvHeads * headDim, random)) as [
          Float32Array,
          Float32Array,
        ];
        const contract = contractOf(headDim);
        const { out } = await target.launch(
          contract,
          { q, k, v, rows, columns, heads, kv_heads: kvHeads, scale },
          { batch },
        );
        const expected = flashAttentionNocausal(q, k, v, { batch, rows, columns, heads, kvHeads, headDim }, scale);
        expectClose(contract, out!, expected, {});
        if (batch > 1) return;

        const shape = { heads, kv_heads: kvHeads, head_dim: headDim, columns };
        const dot = await target.launch(qktMatmul, { q, k, ...shape }, { rows });
        const scaled = await target.launch(
          scaleOf('f32'),
          { x: dot.scores as Float32Array, columns, factor: scale },
          { rows: rows * heads },
        );
        const soft = await target.launch(
          softmax('f32'),
          { x: scaled.x as Float32Array, columns },
          { rows: rows * heads },
        );
        const unfused = await target.launch(weightedMatmul, { weights: soft.y as Float32Array, v, ...shape }, { rows });
        expectClose(contract, unfused.out!, expected, {});
      },
    ));

  it('has a twin that masks: scores of a causal chunk', async () => {
    const random = new Random(8);
    const [rows, columns, past] = [5, 9, 4];
    const scores = fill('normal', rows * 2 * columns, random);
    const masked = await target.launch(
      causalMask('f32'),
      { scores, heads: 2, columns, past, value: Number.NEGATIVE_INFINITY },
      { rows },
    );
    const { y } = await target.launch(
      softmax('f32'),
      { x: masked.scores as Float32Array, columns },
      { rows: rows * 2 },
    );
    for (let row = 0; row < rows * 2; row++) {
      const seen = Math.floor(row / 2) + past + 1;
      const weights = [...y!.slice(row * columns, (row + 1) * columns)];
      expect(weights.slice(seen).every((weight) => weight === 0)).toBe(true);
      expect(weights.reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 5);
    }
  });

  it('gives 0 where there is nothing to attend to', async () => {
    const q = new Float32Array(2 * 8).fill(1);
    const none = new Float32Array(0);
    const { out } = await target.launch(
      contractOf(8),
      { q, k: none, v: none, rows: 2, columns: 0, heads: 1, kv_heads: 1, scale: 1 },
      { batch: 1 },
    );
    expect([...out!]).toEqual(new Array(16).fill(0));
  });
});
