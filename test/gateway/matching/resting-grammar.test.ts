import { expect, it } from 'vitest';
import { grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import { type GrammarMatcher, type MaskGrammar, maskAddon } from '../../../src/gateway/matching/mask-addon.js';
import { grammarBuffer } from '../../../src/lib/grammar/grammar-buffer.js';

const addon = maskAddon();
/** Single bytes, and a token that ends a text. */
const vocabulary = new addon.MaskVocabulary(
  Uint8Array.from({ length: 256 }, (_, byte) => byte),
  Uint32Array.from({ length: 258 }, (_, id) => Math.min(id, 256)),
  Uint32Array.of(256),
);
const MOST_AT_REST = 1_000_000;

/** The masks along a text, byte by byte. */
async function masksAlong(matcher: GrammarMatcher, text: string): Promise<string[]> {
  const masks: string[] = [];
  for (const tokenIds of [[], ...[...Buffer.from(text)].map((byte) => [byte])]) {
    const job = { matcher, tokenIds: Uint32Array.from(tokenIds), draftTokens: undefined };
    const [result] = await vocabulary.run([job]);
    if (result?.outcome !== 'ready') throw new Error(result?.outcome);
    masks.push(Buffer.from(result.mask.bits).toString('hex'));
  }
  return masks;
}

async function prepared(schema: unknown): Promise<MaskGrammar> {
  const rules = grammarOf({ $case: 'jsonSchema', value: JSON.stringify(schema) });
  return vocabulary.prepare(grammarBuffer(rules), addon.MaskGrammar);
}

it('a large grammar keeps its rules as written once its texts are closed, and has the same masks for the next one', async () => {
  const grammar = await prepared({ type: 'array', items: { type: 'string', maxLength: 9000 } });
  const text = `["${'a'.repeat(6000)}", "é"]`;
  const [first, second] = [new addon.GrammarMatcher(grammar), new addon.GrammarMatcher(grammar)];
  const masks = await masksAlong(first, text);
  first.close();
  // Another text is open.
  expect(grammar.allocatedBytes).toBeGreaterThan(MOST_AT_REST);
  expect(grammar.epoch).toBeLessThan(Number.POSITIVE_INFINITY);
  second.close();
  expect(grammar.allocatedBytes).toBeLessThan(10_000);
  expect(grammar.epoch).toBe(Number.POSITIVE_INFINITY);
  const again = new addon.GrammarMatcher(grammar);
  expect(await masksAlong(again, text)).toEqual(masks);
  expect(grammar.epoch).toBeLessThan(Number.POSITIVE_INFINITY);
  again.close();
  grammar.close();
});

it('a small grammar keeps its states', async () => {
  const grammar = await prepared({ type: 'array', items: { type: 'integer' } });
  const matcher = new addon.GrammarMatcher(grammar);
  await masksAlong(matcher, '[1, 22]');
  const before = grammar.allocatedBytes;
  matcher.close();
  expect(grammar.allocatedBytes).toBe(before);
  grammar.close();
});
