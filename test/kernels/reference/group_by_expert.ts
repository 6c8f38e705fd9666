/** Results of group_by_expert: a run for each expert, those without rows last, and the position of each row of each run. */
export function groupByExpert(ids: Int32Array, experts: number, used: number, align: number) {
  const rowsOf = Array.from({ length: experts }, (): number[] => []);
  for (const [pair, expert] of ids.entries()) rowsOf[expert]!.push(pair);
  const runs: number[][] = [];
  const rowOf = new Map<number, number>();
  const placeOf = new Int32Array(ids.length);
  let first = 0;
  const firsts = rowsOf.map((pairs) => {
    const own = first;
    for (const [i, pair] of pairs.entries()) {
      rowOf.set(own + i, Math.floor(pair / used));
      placeOf[pair] = own + i;
    }
    first += Math.ceil(pairs.length / align) * align;
    return own;
  });
  for (const hasRows of [true, false]) {
    for (const [expert, pairs] of rowsOf.entries()) {
      if (pairs.length > 0 === hasRows) runs.push([expert, firsts[expert]!, pairs.length]);
    }
  }
  return { runs: Int32Array.from(runs.flat()), rowOf, placeOf, places: first };
}
