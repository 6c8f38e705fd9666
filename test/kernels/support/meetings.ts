import { WORDS_A_MEETING } from '../../../src/executor/kernels/index.js';

/** Words of all ranks, of which the others have told one that they came to its meeting; of other meetings nobody has. */
export function toldWords(ranks: number, rank: number, meetings: number, meeting: number, pass: number) {
  const words = Array.from({ length: ranks }, () => new Int32Array(meetings * WORDS_A_MEETING).fill(pass - 1));
  for (let other = 0; other < ranks; other++) {
    if (other !== rank) words[rank]![meeting * WORDS_A_MEETING + other] = pass;
  }
  return Object.fromEntries(words.map((own, i) => [`w${i}`, own]));
}

/** What the words hold when the rank has told the others that it came. */
export function wordsAfter(
  before: Readonly<Record<string, Int32Array>>,
  rank: number,
  meeting: number,
  pass: number,
): Readonly<Record<string, Int32Array>> {
  return Object.fromEntries(
    Object.entries(before).map(([name, words]) => {
      const after = words.slice();
      if (name !== `w${rank}`) after[meeting * WORDS_A_MEETING + rank] = pass;
      return [name, after];
    }),
  );
}
