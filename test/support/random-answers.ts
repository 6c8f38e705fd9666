import type { GrammarRules } from '../../src/lib/grammar/grammar.js';
import { afterBytes, allows, byteMatcher, END } from './byte-engine.js';
import type { Random } from './random.js';

/** Bytes beyond ASCII that the names and constants of a schema may have in one place. */
const MOST_BYTES_OF_CONSTANTS = 8;
/** Bytes from which on a walk takes what ends values where it may. */
const LONG = 60;
const ENDING = [...'"}],.'].map((character) => character.charCodeAt(0));

/**
 * Answers of a grammar, each walked to its end as a model does that takes any token its mask allows; the tokens are single bytes.
 *
 * @returns as many as asked for, but those that are not over after 4,000 bytes
 */
export async function randomAnswers(rules: GrammarRules, count: number, random: Random): Promise<string[]> {
  const start = await byteMatcher(rules);
  const answers: string[] = [];
  for (let i = 0; i < count; i++) {
    const matcher = start.fork();
    const bytes: number[] = [];
    let result = await afterBytes(matcher, Uint8Array.of());
    for (;;) {
      if (result.outcome !== 'ready') throw new Error(`${result.outcome} behind ${Buffer.from(bytes)}`);
      const { mask } = result;
      const allowed = Array.from({ length: END + 1 }, (_, id) => id).filter((id) => allows(mask, id));
      const ends = bytes.length < LONG ? [] : allowed.filter((id) => id === END || ENDING.includes(id));
      // If any character may follow, the walk takes ASCII.
      const ascii = allowed.filter((id) => id < 0x80 || id === END);
      const isFree = allowed.length - ascii.length > MOST_BYTES_OF_CONSTANTS;
      const from = ends.length > 0 ? ends : isFree ? ascii : allowed;
      const next = from[random.below(from.length)];
      if (next === undefined) throw new Error(`nothing may follow ${Buffer.from(bytes)}`);
      if (next === END) answers.push(Buffer.from(bytes).toString());
      if (next === END || bytes.length > 4000) break;
      bytes.push(next);
      result = await afterBytes(matcher, Uint8Array.of(next));
    }
    matcher.close();
  }
  start.close();
  return answers;
}
