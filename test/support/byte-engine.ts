import {
  type GrammarMatcher,
  type MaskJob,
  type MaskResult,
  maskAddon,
} from '../../src/gateway/matching/mask-addon.js';
import type { GrammarRules } from '../../src/lib/grammar/grammar.js';
import { grammarBuffer } from '../../src/lib/grammar/grammar-buffer.js';

const { GrammarMatcher: MatcherClass, MaskGrammar, MaskVocabulary } = maskAddon();

/** Ends a text in a vocabulary whose other tokens are the 256 bytes. */
export const END = 256;

const vocabulary = new MaskVocabulary(
  Uint8Array.from({ length: 256 }, (_, byte) => byte),
  Uint32Array.from({ length: 258 }, (_, id) => Math.min(id, 256)),
  Uint32Array.of(END),
);

/** A matcher of a grammar over single bytes. */
export async function byteMatcher(rules: GrammarRules): Promise<GrammarMatcher> {
  return new MatcherClass(await vocabulary.prepare(grammarBuffer(rules), MaskGrammar));
}

/** Result of a text's bytes. */
export async function afterBytes(matcher: GrammarMatcher, bytes: Uint8Array): Promise<MaskResult> {
  const job: MaskJob = { matcher, tokenIds: Uint32Array.from(bytes), draftTokens: undefined };
  const [result] = await vocabulary.run([job]);
  return result as MaskResult;
}

export const allows = ({ bits }: { readonly bits: Uint8Array }, id: number): boolean =>
  ((bits[id >> 3] as number) & (1 << (id & 7))) !== 0;

/** Which of the texts the mask engine takes as a whole. @throws Error where one takes more than its budget */
export async function acceptedBy(rules: GrammarRules, texts: readonly string[]): Promise<string[]> {
  const start = await byteMatcher(rules);
  const accepted: string[] = [];
  for (const text of texts) {
    const matcher = start.fork();
    const result = await afterBytes(matcher, Buffer.from(text));
    if (result.outcome === 'exceeded') throw new Error(`${JSON.stringify(text)} ${result.why}`);
    if (result.outcome === 'ready' && allows(result.mask, END)) accepted.push(text);
    matcher.close();
  }
  start.close();
  return accepted;
}
