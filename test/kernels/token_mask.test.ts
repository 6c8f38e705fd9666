import fc from 'fast-check';
import { it } from 'vitest';
import { tokenMask as contract, MASK_LATE, MASK_NONE } from '../../src/executor/kernels/index.js';
import { tokenMask } from './reference/token_mask.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('token_mask', (target) => {
  it('leaves what a row’s mask allows, all without a mask, and nothing where it has not come', () =>
    target.check(
      fc.tuple(size(1200), size(4), fills('normal', 'zeros', 'special'), seed),
      async ([vocabulary, samples, kind, start]) => {
        const random = new Random(start);
        const logits = fill(kind, samples * vocabulary, random);
        const mask_words = Math.ceil(vocabulary / 32);
        const share = random.next();
        const allowed = Array.from({ length: samples }, () =>
          Array.from({ length: vocabulary }, () => random.next() < share),
        );
        const masks = new Int32Array(samples * mask_words);
        for (const [m, tokens] of allowed.entries()) {
          for (const [i, is] of tokens.entries()) if (is) masks[m * mask_words + (i >> 5)]! |= 1 << (i & 31);
        }
        const row_mask = Int32Array.from({ length: samples }, () => random.below(samples + 2) + MASK_LATE);
        const result = await target.launch(
          contract,
          { logits, row_mask, masks, mask_words, vocabulary },
          { samples, masks: samples },
        );
        const values = new Float64Array(logits.length);
        for (let i = 0; i < samples; i++) {
          const row = logits.subarray(i * vocabulary, (i + 1) * vocabulary);
          const index = row_mask[i]!;
          const mask = index === MASK_NONE ? undefined : index === MASK_LATE ? [] : allowed[index];
          values.set(tokenMask(row, mask), i * vocabulary);
        }
        expectClose(contract, result.logits!, { values }, {});
      },
    ));
});
