/**
 * The largest number up to `limit` for which something holds, and does not hold for the next; 0 when there is none.
 *
 * @param hint where to begin: near the answer, few are tried
 */
export async function largest(holds: (n: number) => Promise<boolean>, limit: number, hint?: number): Promise<number> {
  let [low, high] = [0, limit + 1];
  let step = hint === undefined ? limit : 1;
  let next = Math.max(1, Math.min(hint ?? limit, limit));
  while (high - low > 1) {
    if (next <= low || next >= high) next = Math.floor((low + high) / 2);
    const holdsHere = await holds(next);
    if (holdsHere) low = next;
    else high = next;
    next += holdsHere ? step : -step;
    step *= 2;
  }
  return low;
}
