import { expect, it } from 'vitest';
import {
  ATTENTION_SPLIT,
  COMBINE_FEW,
  attentionCombine as contract,
  NO_SINK,
} from '../../src/executor/kernels/index.js';
import { expectClose } from './support/compare.js';
import { splitCases, splitParts } from './support/splits.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random, size } from './support/values.js';

onEachTarget('attention_combine', (target) => {
  it('combines the splits that a row reaches, and no other', () =>
    target.check(splitCases(size(200)), async (made) => {
      const { launched, values, magnitudes } = splitParts(made);
      const [{ tokens, splits }] = made;
      const { out } = await target.launch(contract, launched, { tokens });
      expectClose(contract, out!, { values, magnitudes }, { splits });
    }));

  it('combines many splits to the bits that it combines few to', async () => {
    const random = new Random(5);
    const [heads, head_dim, few] = [3, 40, COMBINE_FEW];
    const scores = { sinks: Float32Array.of(0.5, NO_SINK, 3), window: 0 };
    const parts = fill('normal', heads * few * (head_dim + 2), random).map(Math.abs);
    const position = (splits: number) => Int32Array.of(splits * ATTENTION_SPLIT - 1);
    const combine = async (splits: number, own: Float32Array) =>
      (
        await target.launch(
          contract,
          { ...scores, parts: own, row_position: position(splits), heads, head_dim, splits },
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
