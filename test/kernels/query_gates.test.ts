import fc from 'fast-check';
import { it } from 'vitest';
import { sigmoidGate, splitQueryGates } from '../../src/executor/kernels/index.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('split_query_gates', (target) => {
  it('takes q, k and v together, and each head’s gate from behind it', () =>
    target.check(
      fc.tuple(size(6), size(5), size(3), fc.constantFrom(1, 16, 64, 256), seed),
      async ([rows, heads, kvHeads, headDim, start]) => {
        const width = 2 * heads + 2 * kvHeads;
        const gated = fill('normal', rows * width * headDim, new Random(start));
        const { qkv, gate } = await target.launch<typeof splitQueryGates.arguments>(
          splitQueryGates,
          { gated, heads, kv_heads: kvHeads, head_dim: headDim },
          { rows },
        );
        const pick = (wanted: (head: number) => boolean) => {
          const of = (i: number) => Math.floor(i / headDim) % width;
          return { values: Float64Array.from([...gated].filter((_, i) => wanted(of(i)))) };
        };
        const isGate = (head: number) => head < 2 * heads && head % 2 === 1;
        expectClose(
          splitQueryGates,
          qkv!,
          pick((head) => !isGate(head)),
          {},
        );
        expectClose(splitQueryGates, gate!, pick(isGate), {});
      },
    ));
});

onEachTarget('sigmoid_gate', (target) => {
  it('multiplies each element by the sigmoid of its gate', () =>
    target.check(
      fc.tuple(size(8), size(700), fills(...FINITE), fills('normal', 'wide', 'zeros'), seed),
      async ([rows, columns, kind, gates, start]) => {
        const random = new Random(start);
        const before = fill(kind, rows * columns, random);
        const gate = fill(gates, rows * columns, random);
        const { y } = await target.launch<typeof sigmoidGate.arguments>(
          sigmoidGate,
          { y: before.slice(), gate, columns },
          { rows },
        );
        const values = Float64Array.from(before, (value, i) => value / (1 + Math.exp(-gate[i]!)));
        expectClose(sigmoidGate, y!, { values }, {});
      },
    ));
});
