import { expect, it } from 'vitest';
import { promptSplitRows, splitsContexts } from '../../src/executor/kernels/index.js';

it.each([
  // Rows, tiles, KV heads, split.
  [1, 1, 8, true],
  [32, 1, 8, true],
  [33, 1, 8, false],
  [62, 4, 2, true],
  [65, 5, 2, false],
  // Rows of different slots share no keys.
  [128, 128, 8, true],
  [128, 65, 8, true],
  [128, 64, 8, false],
  [257, 257, 8, false],
])('%i rows in %i tiles with %i KV heads are split: %s', (rows, tiles, kvHeads, isSplit) => {
  expect(splitsContexts(rows, tiles, { rows: 256, promptRows: promptSplitRows(kvHeads) })).toBe(isSplit);
});
