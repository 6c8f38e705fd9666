import { xgrammar } from '../../src/gateway/matching/xgrammar.js';
import type { Random } from './random.js';

const END = 256;
/** Bytes beyond ASCII that the names and constants of a schema may have in one place. */
const MOST_BYTES_OF_CONSTANTS = 8;
/** Bytes from which on a walk takes what ends values where it may. */
const LONG = 60;
const ENDING = [...'"}],.'].map((character) => character.charCodeAt(0));

/** Writes answers as a model does that takes any token its mask allows; the tokens are single bytes. */
export class RandomAnswers {
  private constructor(private readonly compiler: Awaited<ReturnType<typeof RandomAnswers.compiler>>) {}

  static async create(): Promise<RandomAnswers> {
    return new RandomAnswers(await RandomAnswers.compiler());
  }

  private static async compiler() {
    const { GrammarCompiler, TokenizerInfo } = xgrammar();
    const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`);
    const vocabulary = await TokenizerInfo.createTokenizerInfo([...bytes, '</s>'], 'byte_fallback', false, END + 1, [
      END,
    ]);
    return GrammarCompiler.createGrammarCompiler(vocabulary, false);
  }

  /**
   * Answers of a grammar, each walked to its end.
   *
   * @returns as many as asked for, but those that are not over after 4,000 bytes
   */
  async of(grammar: string, count: number, random: Random): Promise<string[]> {
    const compiled = await this.compiler.compileGrammar(grammar);
    const answers: string[] = [];
    for (let i = 0; i < count; i++) {
      const matcher = await xgrammar().GrammarMatcher.createGrammarMatcher(compiled);
      const bytes: number[] = [];
      for (;;) {
        const mask = await matcher.getNextTokenBitmask();
        const allowed = Array.from({ length: END + 1 }, (_, id) => id).filter(
          (id) => ((mask[id >> 5]! >> (id & 31)) & 1) === 1,
        );
        const ends = bytes.length < LONG ? [] : allowed.filter((id) => id === END || ENDING.includes(id));
        // The library's masks have bytes that end no character; where any character may follow, the walk takes ASCII.
        const ascii = allowed.filter((id) => id < 0x80 || id === END);
        const isFree = allowed.length - ascii.length > MOST_BYTES_OF_CONSTANTS;
        const from = ends.length > 0 ? ends : isFree ? ascii : allowed;
        const next = from[random.below(from.length)];
        if (next === undefined) throw new Error(`nothing may follow ${Buffer.from(bytes)}`);
        if (!matcher.acceptToken(next)) throw new Error(`${next} is refused behind ${Buffer.from(bytes)}`);
        if (next === END) answers.push(Buffer.from(bytes).toString());
        if (next === END || bytes.length > 4000) break;
        bytes.push(next);
      }
      matcher.dispose();
    }
    compiled.dispose();
    return answers;
  }
}
