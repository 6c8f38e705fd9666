import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { type GrammarMatcher, type MaskVocabulary, maskAddon } from '../../../src/gateway/matching/mask-addon.js';
import { FileByteSource } from '../../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import type { GrammarRules } from '../../../src/lib/grammar/grammar.js';
import { grammarBuffer } from '../../../src/lib/grammar/grammar-buffer.js';
import { createTokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
import { type LibraryMatcher, libraryMasks } from '../../support/library-masks.js';
import { maskConstraints, rulesOf } from '../../support/mask-constraints.js';
import { matchPrefix } from '../../support/prefix-matcher.js';
import { Random } from '../../support/random.js';
import { isFull, runs, seed } from '../../support/run-size.js';
import { sharedPath } from '../../support/shared-data.js';

/**
 * Masks over vocabularies of models are those of the grammar library; where they differ, a plain matcher decides. `ROCMFORGE_VOCABULARIES`
 * is a folder of GGUF files with vocabularies. Grammars that passed with the same sources and seed are not compared again:
 * `build/vocabulary-masks.json`.
 */
const root = fileURLToPath(new URL('../../../', import.meta.url));
const folder = process.env.ROCMFORGE_VOCABULARIES ?? sharedPath('data/vocabs');
const STATE = path.join(root, 'build', 'vocabulary-masks.json');
/** In addition to the grammars of each kind. */
const SCHEMAS = runs(220, 20);
/** Tokens of a text, and bytes behind which it ends. */
const STEPS = 12;
const MOST_BYTES = 48;
/** Tokens of a mask that the plain matcher decides about: of those that differ, in the full tier all, and of all. */
const DIFFERENT = isFull ? Number.POSITIVE_INFINITY : 24;
const RANDOM = 4;
/** Grammars whose masks take time by the square of a text's length. */
const AMBIGUOUS = 2;

interface Counts {
  grammars: number;
  masks: number;
  different: number;
  decided: number;
  /** Texts of ambiguous grammars that ended because a mask takes more than its budget. */
  exceeded: number;
}
interface State {
  key: string;
  /** By vocabulary and constraint. */
  passed: Record<string, Counts>;
}

const { GrammarMatcher: Matcher, MaskGrammar, MaskVocabulary: Vocabulary } = maskAddon();

function readState(): State {
  const hash = createHash('sha256').update(String(seed(35)));
  for (const name of ['native/constraints', 'src/gateway/constraints']) {
    for (const file of readdirSync(path.join(root, name), { recursive: true, encoding: 'utf8' }).sort()) {
      if (/\.(cc|h|ts)$/.test(file)) hash.update(readFileSync(path.join(root, name, file)));
    }
  }
  const key = hash.digest('hex');
  const kept: State | undefined = existsSync(STATE) ? JSON.parse(readFileSync(STATE, 'utf8')) : undefined;
  return kept?.key === key ? kept : { key, passed: {} };
}

/** Bytes of each token as masks see it, and the ids of those that end a text. */
function tokensOf(file: string): { tokens: Uint8Array[]; ends: number[] } {
  const tokenizer = createTokenizer(readGguf(new FileByteSource(file)).metadata);
  const ends = [...tokenizer.eogIds];
  const tokens = Array.from({ length: tokenizer.vocabularySize }, (_, id) =>
    tokenizer.isSpecial(id) || ends.includes(id) ? new Uint8Array(0) : tokenizer.tokenBytes(id),
  );
  return { tokens, ends };
}

function vocabularyOf({ tokens, ends }: ReturnType<typeof tokensOf>): MaskVocabulary {
  const offsets = new Uint32Array(tokens.length + 1);
  for (const [id, token] of tokens.entries()) offsets[id + 1] = offsets[id]! + token.length;
  return new Vocabulary(new Uint8Array(Buffer.concat(tokens)), offsets, Uint32Array.from(ends));
}

const has = (bits: Uint8Array, id: number) => ((bits[id >> 3]! >> (id & 7)) & 1) === 1;

/** Tokens that one mask allows and the other does not. */
function differences(a: Uint8Array, b: Uint8Array): number[] {
  const found: number[] = [];
  for (let byte = 0; byte < a.length; byte++) {
    if (a[byte] === b[byte]) continue;
    for (let id = 8 * byte; id < 8 * byte + 8; id++) if (has(a, id) !== has(b, id)) found.push(id);
  }
  return found;
}

/** @returns undefined where the mask takes more than its budget */
async function maskBehind(
  vocabulary: MaskVocabulary,
  matcher: GrammarMatcher,
  ids: number[],
): Promise<Uint8Array | undefined> {
  const [result] = await vocabulary.run([{ matcher, tokenIds: Uint32Array.from(ids), draftTokens: undefined }]);
  if (result?.outcome === 'exceeded') return undefined;
  if (result?.outcome !== 'ready') throw new Error(`the mask is ${result?.outcome}`);
  return result.mask.bits;
}

/** Compares the masks along one random text. */
async function compare(
  rules: GrammarRules,
  { tokens, ends }: ReturnType<typeof tokensOf>,
  vocabulary: MaskVocabulary,
  library: LibraryMatcher,
  random: Random,
): Promise<Counts> {
  const counts: Counts = { grammars: 1, masks: 0, different: 0, decided: 0, exceeded: 0 };
  const matcher = new Matcher(await vocabulary.prepare(grammarBuffer(rules), MaskGrammar));
  let before: Buffer = Buffer.of();
  let own = await maskBehind(vocabulary, matcher, []);
  for (let step = 0; step < STEPS; step++) {
    if (own === undefined) {
      counts.exceeded = 1;
      break;
    }
    const bits = own;
    const theirs = await library.mask();
    const different = differences(bits, theirs);
    counts.masks += 1;
    counts.different += Math.min(1, different.length);
    const asked = [
      ...(different.length <= DIFFERENT ? different : random.permutation(different.length).slice(0, DIFFERENT)).map(
        (at) => (different.length <= DIFFERENT ? at : different[at]!),
      ),
      ...Array.from({ length: RANDOM }, () => random.below(tokens.length)),
    ];
    for (const id of asked) {
      const isAllowed = ends.includes(id)
        ? matchPrefix(rules, before).isWhole
        : tokens[id]!.length > 0 && matchPrefix(rules, Buffer.concat([before, tokens[id]!])).isViable;
      expect(
        has(bits, id),
        `token ${id}, ${JSON.stringify(Buffer.from(tokens[id]!).toString())}, behind ${JSON.stringify(before.toString())}`,
      ).toBe(isAllowed);
      counts.decided += 1;
    }
    const going: number[] = [];
    for (let id = 0; id < tokens.length; id++) {
      const fits = before.length + tokens[id]!.length <= MOST_BYTES;
      if (fits && !ends.includes(id) && has(bits, id) && has(theirs, id)) going.push(id);
    }
    const id = going[random.below(going.length)];
    if (id === undefined || !library.accept(id)) break;
    before = Buffer.concat([before, tokens[id]!]);
    own = await maskBehind(vocabulary, matcher, [id]);
  }
  matcher.close();
  return counts;
}

const files = folder === undefined ? [] : readdirSync(folder).filter((name) => name.endsWith('.gguf'));

it.skipIf(files.length === 0).each(files)('masks over %s are the library’s, or it is wrong', async (file) => {
  const state = readState();
  const words = tokensOf(path.join(folder!, file));
  const vocabulary = vocabularyOf(words);
  const library = await libraryMasks(words.tokens, words.ends);
  const total: Counts = { grammars: 0, masks: 0, different: 0, decided: 0, exceeded: 0 };
  for (const [i, constraint] of maskConstraints(SCHEMAS, seed(34)).entries()) {
    const rules = rulesOf(constraint);
    if (rules === undefined) continue;
    const key = `${file} ${createHash('sha256').update(JSON.stringify(constraint)).digest('hex').slice(0, 16)}`;
    let counts = state.passed[key];
    if (counts === undefined) {
      const theirs = await library(rules);
      try {
        counts = await compare(rules, words, vocabulary, theirs, new Random(seed(35) + i));
      } catch (error) {
        throw new Error(`${JSON.stringify(constraint)}: ${error instanceof Error ? error.message : error}`);
      }
      theirs.close();
      state.passed[key] = counts;
      mkdirSync(path.dirname(STATE), { recursive: true });
      writeFileSync(STATE, JSON.stringify(state));
    }
    for (const name of Object.keys(total) as (keyof Counts)[]) total[name] += counts[name];
  }
  console.log(
    `${file}: ${words.tokens.length} tokens, ${total.grammars} grammars, ${total.masks} masks, of which ${total.different} differ; the plain matcher decided about ${total.decided} tokens; ${total.exceeded} texts exceed a budget`,
  );
  expect(total.masks).toBeGreaterThan(3 * total.grammars);
  expect(total.exceeded).toBeLessThanOrEqual(AMBIGUOUS);
});
