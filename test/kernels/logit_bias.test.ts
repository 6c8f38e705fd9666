import fc from 'fast-check';
import { it } from 'vitest';
import { logitBias as contract } from '../../src/executor/kernels/index.js';
import { logitBias } from './reference/logit_bias.js';
import { expectClose } from './support/compare.js';
import { bitsOf } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('logit_bias', (target) => {
  it('adds the biases that a row’s slot names', () =>
    target.check(
      fc.tuple(size(1200), size(4), fills('normal', 'zeros', 'special'), seed),
      async ([vocabulary, samples, kind, start]) => {
        const random = new Random(start);
        const entries = 300;
        const logits = fill(kind, samples * vocabulary, random);
        const biases = new Int32Array(samples * (1 + 2 * entries)).fill(-1);
        const named = Array.from({ length: samples }, (_, slot) => {
          const tokens = random.permutation(vocabulary).slice(0, random.below(entries + 1));
          const values = fill('infinite', tokens.length, random);
          const words = tokens.flatMap((token, i) => [token, bitsOf(values[i]!)]);
          biases.set([tokens.length, ...words], slot * (1 + 2 * entries));
          return new Map(tokens.map((token, i) => [token, values[i]!]));
        });
        const order = Int32Array.from(named, (_, i) => i);
        const result = await target.launch(
          contract,
          { logits, sample_row: order, row_slot: order.slice().reverse(), biases, entries, vocabulary },
          { samples, tokens: samples, slot_count: samples },
        );
        const values = new Float64Array(logits.length);
        for (let i = 0; i < samples; i++) {
          const row = logits.subarray(i * vocabulary, (i + 1) * vocabulary);
          values.set(logitBias(row, named[samples - 1 - i]!), i * vocabulary);
        }
        expectClose(contract, result.logits!, { values }, {});
      },
    ));
});
