import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  attentionCombine,
  attentionCombineQuantize as contract,
  Q8_BLOCK,
  quantizeQ8,
} from '../../src/executor/kernels/index.js';
import { attentionCombineQuantize } from './reference/attention_combine_quantize.js';
import { expectQuantized } from './support/packed.js';
import { splitCases, splitParts } from './support/splits.js';
import { onEachTarget } from './support/targets.js';

onEachTarget('attention_combine_quantize', (target) => {
  it('is attention_combine and quantize_q8 in one, to the bit', () =>
    target.check(splitCases(fc.constantFrom(32, 64, 96, 128)), async (made) => {
      const { launched } = splitParts(made);
      const [{ tokens, heads, head_dim, splits }] = made;
      const [columns, blocks] = [heads * head_dim, (heads * head_dim) / Q8_BLOCK];
      const { out } = await target.launch(contract, launched, { tokens, blocks });
      const combined = await target.launch(attentionCombine, launched, { tokens });
      const apart = await target.launch(
        quantizeQ8,
        { x: combined.out as Float32Array, in: columns },
        { rows: tokens, blocks },
      );
      expect(out).toEqual(apart.y);
      const { values, magnitudes } = attentionCombineQuantize(made);
      const off = (i: number) => attentionCombine.tolerance.bound({ splits }, magnitudes[i]!);
      expectQuantized(out as Uint8Array, values, columns, off);
    }));
});
