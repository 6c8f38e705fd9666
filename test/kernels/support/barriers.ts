import { WORDS_A_BARRIER } from '../../../src/executor/kernels/index.js';

/** Words of all ranks, of which the others have told one that they came to its meeting; of other barriers nobody has. */
export function toldWords(ranks: number, rank: number, barriers: number, barrier: number, pass: number) {
  const words = Array.from({ length: ranks }, () => new Int32Array(barriers * WORDS_A_BARRIER).fill(pass - 1));
  for (let other = 0; other < ranks; other++) {
    if (other !== rank) words[rank]![barrier * WORDS_A_BARRIER + other] = pass;
  }
  return Object.fromEntries(words.map((own, i) => [`w${i}`, own]));
}

/** Words after the rank has reported its arrival to the others. */
export function wordsAfter(
  before: Readonly<Record<string, Int32Array>>,
  rank: number,
  barrier: number,
  pass: number,
): Readonly<Record<string, Int32Array>> {
  return Object.fromEntries(
    Object.entries(before).map(([name, words]) => {
      const after = words.slice();
      if (name !== `w${rank}`) after[barrier * WORDS_A_BARRIER + rank] = pass;
      return [name, after];
    }),
  );
}
