import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ATTENTION_SPLIT, COMBINE_FEW, attentionCombine as contract } from '../../src/executor/kernels/index.js';
import { attentionCombine } from './reference/attention_combine.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('attention_combine', (target) => {
  it('folds the splits that a row reaches, and no other', () =>
    target.check(
      fc.tuple(
        fc.record({
          tokens: size(4),
          heads: size(4),
          head_dim: size(200),
          splits: fc.oneof(size(6), fc.constantFrom(COMBINE_FEW, COMBINE_FEW + 1, 127, 128, 129, 150)),
        }),
        fills('normal', 'zeros', 'denormal'),
        seed,
      ),
      async ([{ tokens, heads, head_dim, splits }, kind, start]) => {
        const random = new Random(start);
        const width = head_dim + 2;
        const row_position = Int32Array.from({ length: tokens }, () => random.below(splits * ATTENTION_SPLIT));
        const parts = new Float32Array(tokens * heads * splits * width).fill(Number.NaN);
        const values = new Float64Array(tokens * heads * head_dim);
        const magnitudes = new Float64Array(values.length);
        for (let place = 0; place < tokens * heads; place++) {
          const used = Math.floor(row_position[Math.floor(place / heads)]! / ATTENTION_SPLIT) + 1;
          const own = Array.from({ length: used }, (_, split) => {
            // Largest score, a sum of up to 128 weights of which one is 1, and values.
            const part = fill(kind, width, random);
            part[0] = random.next() * 40 - 20;
            part[1] = 1 + random.next() * 127;
            parts.set(part, (place * splits + split) * width);
            return part;
          });
          const expected = attentionCombine(own, head_dim);
          values.set(expected.values, place * head_dim);
          magnitudes.set(expected.magnitudes, place * head_dim);
        }
        const { out } = await target.launch(contract, { parts, row_position, heads, head_dim, splits }, { tokens });
        expectClose(contract, out!, { values, magnitudes }, { splits });
      },
    ));

  it('folds many splits to the bits that it folds few to', async () => {
    const random = new Random(5);
    const [heads, head_dim, few] = [3, 40, COMBINE_FEW];
    const parts = fill('normal', heads * few * (head_dim + 2), random).map(Math.abs);
    const position = (splits: number) => Int32Array.of(splits * ATTENTION_SPLIT - 1);
    const combine = async (splits: number, own: Float32Array) =>
      (
        await target.launch(
          contract,
          { parts: own, row_position: position(splits), heads, head_dim, splits },
          { tokens: 1 },
        )
      ).out;
    // Splits whose largest score is so small that they count for nothing.
    const many = 140;
    const padded = new Float32Array(heads * many * (head_dim + 2)).fill(-1e30);
    for (let head = 0; head < heads; head++) {
      const own = parts.subarray(head * few * (head_dim + 2), (head + 1) * few * (head_dim + 2));
      padded.set(own, head * many * (head_dim + 2));
      for (let split = few; split < many; split++) padded[(head * many + split) * (head_dim + 2) + 1] = 1;
    }
    expect(await combine(many, padded)).toEqual(await combine(few, parts));
  });
});
