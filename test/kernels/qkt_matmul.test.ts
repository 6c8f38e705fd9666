import fc from 'fast-check';
import { it } from 'vitest';
import { qktMatmul as contract, qktMatmulPaged } from '../../src/executor/kernels/index.js';
import { headOf } from './reference/flash_attention_nocausal.js';
import { qktMatmul } from './reference/qkt_matmul.js';
import { expectClose } from './support/compare.js';
import { lastAndInner, PagedStep, pagedCases } from './support/paged-cases.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const range = (n: number) => Array.from({ length: n }, (_, i) => i);

onEachTarget('qkt_matmul', (target) => {
  if (target.has(contract)) {
    it('multiplies every query with every key of its KV head', () =>
      target.check(
        fc.tuple(
          fc.record({ rows: size(20), columns: size(60), kvHeads: size(3), group: size(4), head_dim: size(130) }),
          fills(...FINITE, 'special'),
          seed,
        ),
        async ([{ rows, columns, kvHeads, group, head_dim }, kind, start]) => {
          const random = new Random(start);
          const heads = kvHeads * group;
          const q = fill(kind, rows * heads * head_dim, random);
          const k = fill(kind, columns * kvHeads * head_dim, random);
          const shape = { heads, kv_heads: kvHeads, head_dim, columns };
          const { scores } = await target.launch(contract, { q, k, ...shape }, { rows });
          const expected = qktMatmul(
            range(rows).map((row) => range(heads).map((head) => headOf(q, row, heads, head, head_dim))),
            (_, head) => range(columns).map((c) => headOf(k, c, kvHeads, Math.floor(head / group), head_dim)),
          );
          expectClose(contract, scores!, expected, shape);
        },
      ));
  }

  it('does the same over the paged cache, 0 past a row’s position', () =>
    target.check(
      fc.tuple(pagedCases(70), fc.nat(20)),
      async ([shape, extra]) => {
        const step = new PagedStep(shape, lastAndInner);
        const { cache, qkv, rows, placement, dimensions } = step;
        const columns = Math.max(...shape.lengths) + extra;
        const paged = qktMatmulPaged(shape.type);
        const sizes = { head_dim: shape.headDim, columns };
        const { scores } = await target.launch(paged, { ...placement, ...sizes, qkv, k_cache: cache.k }, dimensions);
        const expected = qktMatmul(
          rows.map((_, row) => range(step.heads).map((head) => step.query(row, head))),
          (row, head) => {
            const { slot, position } = rows[row]!;
            const keys = cache.context('k', slot, step.kvHead(head));
            return range(columns).map((c) => (c <= position ? keys[c] : undefined));
          },
        );
        expectClose(paged, scores!, expected, sizes);
      },
      Math.min(target.runs, 100),
    ));
});
