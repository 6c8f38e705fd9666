import fc from 'fast-check';
import { it } from 'vitest';
import {
  attentionPaged,
  weightedMatmul as contract,
  mask,
  qktMatmulPaged,
  scale as scaleOf,
  softmax,
  weightedMatmulPaged,
} from '../../src/executor/kernels/index.js';
import { attentionPaged as attentionReference } from './reference/attention_paged.js';
import { headOf } from './reference/flash_attention_nocausal.js';
import { weightedSum } from './reference/weighted_matmul.js';
import { expectClose } from './support/compare.js';
import { lastAndInner, PagedStep, pagedCases } from './support/paged-cases.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const range = (n: number) => Array.from({ length: n }, (_, i) => i);

onEachTarget('weighted_matmul', (target) => {
  if (target.has(contract)) {
    it('weighs the values of each head’s KV head', () =>
      target.check(
        fc.tuple(
          fc.record({ rows: size(20), columns: size(60), kvHeads: size(3), group: size(4), head_dim: size(130) }),
          fills(...FINITE, 'special'),
          seed,
        ),
        async ([{ rows, columns, kvHeads, group, head_dim }, kind, start]) => {
          const random = new Random(start);
          const heads = kvHeads * group;
          const weights = fill(kind, rows * heads * columns, random);
          const v = fill(kind, columns * kvHeads * head_dim, random);
          const shape = { heads, kv_heads: kvHeads, head_dim, columns };
          const { out } = await target.launch(contract, { weights, v, ...shape }, { rows });
          for (const place of range(rows * heads)) {
            const kvHead = Math.floor((place % heads) / group);
            const values = range(columns).map((c) => headOf(v, c, kvHeads, kvHead, head_dim));
            const expected = weightedSum(weights.subarray(place * columns, (place + 1) * columns), values, head_dim);
            expectClose(contract, out!.subarray(place * head_dim, (place + 1) * head_dim), expected, shape);
          }
        },
      ));
  }

  it('ends the unfused twin of paged attention: qkt_matmul, scale, mask, softmax, weighted_matmul', () =>
    target.check(
      fc.tuple(pagedCases(70), fc.nat(20)),
      async ([shape, extra]) => {
        const step = new PagedStep(shape, lastAndInner);
        const { cache, qkv, heads, placement, dimensions } = step;
        const { row_position } = placement;
        const columns = Math.max(...shape.lengths) + extra;
        const sizes = { ...placement, head_dim: shape.headDim, columns };
        const [rows, all] = [{ rows: step.rows.length }, { rows: step.rows.length * heads }];
        const dot = await target.launch(qktMatmulPaged(shape.type), { ...sizes, qkv, k_cache: cache.k }, dimensions);
        const scaled = await target.launch(
          scaleOf('f32'),
          { x: dot.scores as Float32Array, columns, factor: step.scale },
          all,
        );
        const masked = await target.launch(
          mask('f32'),
          {
            scores: scaled.x as Float32Array,
            row_position,
            heads,
            columns,
            window: 0,
            value: Number.NEGATIVE_INFINITY,
          },
          rows,
        );
        const soft = await target.launch(softmax('f32'), { x: masked.scores as Float32Array, columns }, all);
        const { out } = await target.launch(
          weightedMatmulPaged(shape.type),
          { ...sizes, weights: soft.y as Float32Array, v_cache: cache.v },
          dimensions,
        );
        const expected = attentionReference(qkv, cache, step.rows, heads, step.scale);
        expectClose(attentionPaged(shape.type, shape.headDim), out!, expected, {});
      },
      Math.min(target.runs, 100),
    ));
});
