const MULTIPLIERS = [0xd2511f53n, 0xcd9e8d57n] as const;
const WEYL = [0x9e3779b9n, 0xbb67ae85n] as const;
const WORD = 0xffffffffn;

/** Philox4x32-10 (Salmon et al. 2011): the four words of the block that (counter, key) names. */
export function philox(counter: readonly number[], key: readonly number[]): number[] {
  let [c0, c1, c2, c3] = counter.map((word) => BigInt(word >>> 0)) as [bigint, bigint, bigint, bigint];
  let [k0, k1] = key.map((word) => BigInt(word >>> 0)) as [bigint, bigint];
  for (let round = 0; round < 10; round++) {
    const p0 = MULTIPLIERS[0] * c0;
    const p1 = MULTIPLIERS[1] * c2;
    [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, p1 & WORD, (p0 >> 32n) ^ c3 ^ k1, p0 & WORD];
    k0 = (k0 + WEYL[0]) & WORD;
    k1 = (k1 + WEYL[1]) & WORD;
  }
  return [c0, c1, c2, c3].map(Number);
}

/** -ln(-ln u), u = (the top 23 bits + 1/2) / 2²³. */
export function gumbel(bits: number): number {
  return -Math.log(-Math.log(((bits >>> 9) + 0.5) * 2 ** -23));
}
