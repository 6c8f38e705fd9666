/** A slot's history [1 + 2 * entries] after `token` was generated: how many, then token and count pairs. */
export function tokenHistory(history: Int32Array, token: number): Int32Array {
  const result = history.slice();
  const count = history[0]!;
  for (let i = 0; i < count; i++) {
    if (history[1 + 2 * i] === token) {
      result[2 + 2 * i]! += 1;
      return result;
    }
  }
  if (1 + 2 * count < history.length) {
    result.set([token, 1], 1 + 2 * count);
    result[0] = count + 1;
  }
  return result;
}
