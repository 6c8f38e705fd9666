import { gatherRows } from './gather_rows.js';

/** y[t] = table[token]: the token of row t, or where it is -1 the last token of the row's slot. */
export function embeddingGather(
  table: ArrayLike<number>,
  rowToken: ArrayLike<number>,
  rowSlot: ArrayLike<number>,
  lastToken: ArrayLike<number>,
  hidden: number,
): Float64Array {
  const tokens = Array.from(rowToken, (token, t) => (token < 0 ? lastToken[rowSlot[t]!]! : token));
  return gatherRows(table, tokens, hidden);
}
