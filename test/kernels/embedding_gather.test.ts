import fc from 'fast-check';
import { it } from 'vitest';
import { embeddingGather as contractOf } from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { embeddingGather } from './reference/embedding_gather.js';
import { expectClose } from './support/compare.js';
import { decode, encode } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('embedding_gather', (target) => {
  it('takes the token of the step, or the one its slot last sampled', () =>
    target.check(
      fc.tuple(
        fc.constantFrom('f32' as const, 'f16' as const),
        fc.record({ vocabulary: size(40), hidden: size(600), tokens: size(20), slot_count: size(6) }),
        fills('normal', 'special', 'denormal'),
        seed,
      ),
      async ([type, { vocabulary, hidden, tokens, slot_count }, kind, start]) => {
        const random = new Random(start);
        const slot_words = SlotWord.blockTable + 3;
        const table = encode(type, fill(kind, vocabulary * hidden, random));
        const last = Int32Array.from({ length: slot_count }, () => random.below(vocabulary));
        const slots = Int32Array.from({ length: slot_count * slot_words }, (_, i) =>
          i % slot_words === SlotWord.lastToken ? last[Math.floor(i / slot_words)]! : -7,
        );
        const row_token = Int32Array.from({ length: tokens }, () => random.below(vocabulary + 1) - 1);
        const row_slot = Int32Array.from({ length: tokens }, () => random.below(slot_count));
        const dimensions = { tokens, vocabulary, slot_count };
        const contract = contractOf(type);
        const { y } = await target.launch(
          contract,
          { table, row_token, row_slot, slots, slot_words, hidden },
          dimensions,
        );
        const values = embeddingGather(decode(type, table), row_token, row_slot, last, hidden);
        expectClose(contract, y!, { values }, dimensions);
      },
    ));
});
