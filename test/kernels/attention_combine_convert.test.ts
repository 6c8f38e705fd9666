import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  attentionCombine,
  attentionCombineConvert as contractOf,
  convert,
  TILE_TYPES,
} from '../../src/executor/kernels/index.js';
import { attentionCombineConvert } from './reference/attention_combine_convert.js';
import { expectClose } from './support/compare.js';
import { decode, type FloatArray } from './support/half.js';
import { splitCases, splitParts } from './support/splits.js';
import { onEachTarget } from './support/targets.js';

onEachTarget('attention_combine_convert', (target) => {
  it.each(TILE_TYPES)('is attention_combine and a conversion to %s in one, to the bit', (type) =>
    target.check(splitCases(fc.constantFrom(8, 64, 96, 128)), async (made) => {
      const { launched } = splitParts(made);
      const [{ tokens, heads, head_dim, splits }] = made;
      const { out } = await target.launch(contractOf(type), launched, { tokens });
      const combined = await target.launch(attentionCombine, launched, { tokens });
      const x = combined.out as Float32Array;
      const apart = await target.launch(convert(type), { x, in: heads * head_dim }, { rows: tokens });
      expect(out).toEqual(apart.y);
      const { values, magnitudes } = attentionCombineConvert(made);
      expectClose(contractOf(type), decode(type, out as FloatArray), { values, magnitudes }, { splits });
    }),
  );
});
