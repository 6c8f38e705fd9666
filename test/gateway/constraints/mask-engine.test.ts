import { describe, expect, it } from 'vitest';
import {
  type MaskResult,
  type GrammarMatcher as Matcher,
  maskAddon,
} from '../../../src/gateway/matching/mask-addon.js';
import type { GrammarRules } from '../../../src/lib/grammar/grammar.js';
import { grammarBuffer } from '../../../src/lib/grammar/grammar-buffer.js';
import { allows } from '../../support/byte-engine.js';
import { libraryMasks } from '../../support/library-masks.js';
import { maskConstraints, rulesOf } from '../../support/mask-constraints.js';
import { matchPrefix } from '../../support/prefix-matcher.js';
import { Random } from '../../support/random.js';
import { byTier, runs, seed } from '../../support/run-size.js';

/** ASCII, some bytes of longer characters, and tokens that cross what grammars have borders at; some of more than 16 and 32 bytes. */
const TOKENS: readonly Buffer[] = [
  ...Array.from({ length: 128 }, (_, byte) => Buffer.of(byte)),
  ...[0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x92, 0xa9, 0xed, 0xa0].map((byte) => Buffer.of(byte)),
  ...[
    '": ',
    '", "',
    '{"',
    '"}',
    '"},',
    '[[',
    '],',
    ', ',
    ':1',
    '\\u00',
    '\\"',
    '12',
    '3.5',
    'e+1',
    'true',
    'null',
    'é€',
    '€"',
  ],
  ...[
    'ab',
    'abc',
    'bcb',
    'cbd',
    'aab',
    'hello',
    ' the',
    '\n  ',
    '          ',
    'x'.repeat(17),
    'ab'.repeat(20),
    // The plain matcher takes time by the cube of its length where a grammar is ambiguous.
    ...byTier({ quick: [], default: [], full: ['a'.repeat(70)] }),
  ],
].map((token) => Buffer.from(token));
const END = TOKENS.length;

const { GrammarMatcher, MaskGrammar, MaskVocabulary } = maskAddon();
const lengths = [...TOKENS.map(({ length }) => length), 0];
const vocabulary = new MaskVocabulary(
  new Uint8Array(Buffer.concat(TOKENS)),
  Uint32Array.from([0, ...lengths.map((_, id) => lengths.slice(0, id + 1).reduce((sum, length) => sum + length, 0))]),
  Uint32Array.of(END),
);

const constraints = () => maskConstraints(runs(60), seed(31));

async function next(matcher: Matcher, ids: readonly number[], drafts?: readonly number[]): Promise<MaskResult> {
  const draftTokens = drafts === undefined ? undefined : Uint32Array.from(drafts);
  const [result] = await vocabulary.run([{ matcher, tokenIds: Uint32Array.from(ids), draftTokens }]);
  return result as MaskResult;
}

const allowed = (result: MaskResult): number[] => {
  if (result.outcome !== 'ready') throw new Error(result.outcome);
  return Array.from({ length: END + 1 }, (_, id) => id).filter((id) => allows(result.mask, id));
};

/** Tokens that the plain matcher allows behind some bytes. */
function plainly(rules: GrammarRules, before: Uint8Array): number[] {
  const found = TOKENS.flatMap((token, id) =>
    matchPrefix(rules, Buffer.concat([before, token])).isViable ? [id] : [],
  );
  return matchPrefix(rules, before).isWhole ? [...found, END] : found;
}

/**
 * Steps of a walk, each of which tries the whole vocabulary plainly, and bytes behind which it ends: the plain matcher takes time by the
 * cube of them where a grammar is ambiguous.
 */
const { steps: STEPS, bytes: MOST_BYTES } = byTier({
  quick: { steps: 5, bytes: 16 },
  default: { steps: 5, bytes: 16 },
  full: { steps: 8, bytes: 40 },
});

describe('masks', () => {
  it('are what a plain matcher allows, along random texts of many grammars', async () => {
    const random = new Random(seed(32));
    let masks = 0;
    for (const constraint of constraints()) {
      const rules = rulesOf(constraint);
      if (rules === undefined) continue;
      const matcher = new GrammarMatcher(await vocabulary.prepare(grammarBuffer(rules), MaskGrammar));
      let before: Buffer = Buffer.of();
      let ids = allowed(await next(matcher, []));
      for (let step = 0; step < STEPS; step++) {
        expect(ids, `${JSON.stringify(constraint)} behind ${JSON.stringify(before.toString())}`).toEqual(
          plainly(rules, before),
        );
        masks += 1;
        const going = ids.filter((id) => id !== END && before.length + TOKENS[id]!.length <= MOST_BYTES);
        const id = going[random.below(going.length)];
        if (id === undefined) break;
        before = Buffer.concat([before, TOKENS[id]!]);
        ids = allowed(await next(matcher, [id]));
      }
      matcher.close();
    }
    expect(masks).toBeGreaterThan(150);
  });

  it('behind draft tokens are those behind the same tokens once they are accepted, and a copy goes on by itself', async () => {
    const rules = rulesOf({ $case: 'jsonSchema', value: '{"type": "array", "items": {"enum": ["ab", true]}}' })!;
    const matcher = new GrammarMatcher(await vocabulary.prepare(grammarBuffer(rules), MaskGrammar));
    const drafts = ['[', '"', 'ab', '", "', 'a', 'b', '"'].map((text) =>
      TOKENS.findIndex((token) => token.equals(Buffer.from(text))),
    );
    const result = await next(matcher, [], drafts);
    if (result.outcome !== 'ready') throw new Error(result.outcome);
    expect(result.ahead.map(({ tokenId }) => tokenId)).toEqual(drafts);
    const copy = matcher.fork();
    for (const { tokenId, mask } of result.ahead) {
      const accepted = await next(matcher, [tokenId]);
      expect(accepted).toMatchObject({ outcome: 'ready', mask: { bits: mask.bits } });
    }
    expect(allowed(await next(copy, drafts.slice(0, 1)))).toEqual(plainly(rules, Buffer.from('[')));
    expect((await next(copy, [END])).outcome).toBe('broken');
    matcher.close();
    copy.close();
  });
});

describe('the grammar library', () => {
  /** Its classes take bytes that are no UTF-8, it mixes alternatives, and where a token ends within a character it differs in both ways. */
  it('has the same masks, or the plain matcher says that it is wrong', async () => {
    const library = await libraryMasks([...TOKENS, Buffer.of()], [END]);
    const random = new Random(seed(33));
    let [same, wrong] = [0, 0];
    for (const constraint of constraints()) {
      const rules = rulesOf(constraint);
      if (rules === undefined) continue;
      const their = await library(rules);
      const matcher = new GrammarMatcher(await vocabulary.prepare(grammarBuffer(rules), MaskGrammar));
      let before: Buffer = Buffer.of();
      let ids = allowed(await next(matcher, []));
      for (let step = 0; step < 4 * STEPS; step++) {
        const bits = await their.mask();
        const theirs = Array.from({ length: END + 1 }, (_, id) => id).filter((id) => allows({ bits }, id));
        if (theirs.join() === ids.join()) same += 1;
        else {
          wrong += 1;
          expect(ids, `${JSON.stringify(constraint)} behind ${JSON.stringify(before.toString())}`).toEqual(
            plainly(rules, before),
          );
        }
        const isNext = (id: number) => id !== END && before.length + TOKENS[id]!.length <= MOST_BYTES;
        const going = ids.filter((id) => isNext(id) && theirs.includes(id));
        const id = going[random.below(going.length)];
        if (id === undefined || !their.accept(id)) break;
        before = Buffer.concat([before, TOKENS[id]!]);
        ids = allowed(await next(matcher, [id]));
      }
      their.close();
      matcher.close();
    }
    console.log(`${same} masks are the same, in ${wrong} the library is wrong`);
    expect(same).toBeGreaterThan(4 * wrong);
  });
});
