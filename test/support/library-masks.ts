import type { GrammarRules } from '../../src/lib/grammar/grammar.js';
import { grammarLibrary } from './grammar-library.js';
import { grammarText } from './grammar-text.js';

/** One text in the grammar library, as far as it has come. */
export interface LibraryMatcher {
  /** Bit i % 8 of byte i / 8 allows token i. */
  mask(): Promise<Uint8Array>;
  /** False where the token may not come next. */
  accept(tokenId: number): boolean;
  close(): void;
}

/**
 * `@mlc-ai/web-xgrammar` for a vocabulary.
 *
 * @param tokens bytes of each token
 * @param ends ids of those that end a text
 */
export async function libraryMasks(
  tokens: readonly Uint8Array[],
  ends: readonly number[],
): Promise<(rules: GrammarRules) => Promise<LibraryMatcher>> {
  const { Grammar, GrammarCompiler, GrammarMatcher, TokenizerInfo } = grammarLibrary();
  // The alphabet of byte-level vocabularies, which has a letter for each byte.
  const isPrinted = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let others = 0;
  const letters = Array.from({ length: 256 }, (_, byte) =>
    String.fromCharCode(isPrinted(byte) ? byte : 256 + others++),
  );
  const words = tokens.map((token, id) =>
    ends.includes(id) ? '</s>' : Array.from(token, (byte) => letters[byte]).join(''),
  );
  const info = await TokenizerInfo.createTokenizerInfo(words, 'byte_level', false, words.length, [...ends]);
  const compiler = await GrammarCompiler.createGrammarCompiler(info, false);
  return async (rules) => {
    const grammar = await Grammar.fromEBNF(grammarText(rules));
    const compiled = await compiler.compileGrammar(grammar);
    const matcher = await GrammarMatcher.createGrammarMatcher(compiled);
    return {
      mask: async () => {
        const found = await matcher.getNextTokenBitmask();
        return new Uint8Array(found.buffer.slice(found.byteOffset, found.byteOffset + Math.ceil(words.length / 8)));
      },
      accept: (tokenId) => matcher.acceptToken(tokenId),
      close: () => {
        for (const each of [matcher, compiled, grammar]) each.dispose();
      },
    };
  };
}
