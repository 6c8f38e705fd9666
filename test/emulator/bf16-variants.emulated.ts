import { it } from 'vitest';
import { embeddingGather, matmul } from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { embeddingGather as gatherReference } from '../kernels/reference/embedding_gather.js';
import { matmul as matmulReference } from '../kernels/reference/matmul.js';
import { expectClose } from '../kernels/support/compare.js';
import { decode, encode } from '../kernels/support/half.js';
import { onEachTarget } from '../kernels/support/targets.js';
import { fill, Random } from '../kernels/support/values.js';

// The kernels' own tests draw f32 and f16 tables and weights.
onEachTarget('embedding_gather', (target) => {
  it('takes rows of a bf16 table', async () => {
    const [vocabulary, hidden, slot_words] = [9, 300, SlotWord.blockTable];
    const table = encode('bf16', fill('normal', vocabulary * hidden, new Random(1)));
    const row_token = Int32Array.of(8, 0, 5);
    const dimensions = { tokens: 3, vocabulary, slot_count: 1 };
    const contract = embeddingGather('bf16');
    const { y } = await target.launch(
      contract,
      { table, row_token, row_slot: new Int32Array(3), slots: new Int32Array(slot_words), slot_words, hidden },
      dimensions,
    );
    const values = gatherReference(decode('bf16', table), row_token, new Int32Array(3), new Int32Array(1), hidden);
    expectClose(contract, y!, { values }, dimensions);
  });
});

onEachTarget('matmul', (target) => {
  it('multiplies by bf16 weights', async () => {
    const random = new Random(2);
    const [rows, out, inner] = [5, 37, 301];
    const weight = encode('bf16', fill('normal', out * inner, random));
    const x = fill('normal', rows * inner, random);
    const contract = matmul('bf16');
    const shape = { out, in: inner, x_stride: inner, y_stride: out };
    const { y } = await target.launch(
      contract,
      { weight, x, y: new Float32Array(rows * out), tokens: Int32Array.of(rows), ...shape },
      { rows },
    );
    expectClose(contract, y!, matmulReference(decode('bf16', weight), x, out, inner), { in: inner });
  });
});
