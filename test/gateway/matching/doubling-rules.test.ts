import { expect, it } from 'vitest';
import { grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import { acceptedBy } from '../../support/byte-engine.js';

/** Rules that each use the next one twice: the text has 2^depth letters. */
const doubling = (depth: number) =>
  [
    ...Array.from({ length: depth }, (_, i) => `r${i} ::= r${i + 1} r${i + 1}`),
    `r${depth} ::= [a-z]`,
    'root ::= r0',
  ].join('\n');

it('rules that double accept what they say, on either side of the length to which they are copied', async () => {
  for (const depth of [3, 11, 12]) {
    const grammar = grammarOf({ $case: 'grammar', value: doubling(depth) });
    const text = 'a'.repeat(2 ** depth);
    expect(await acceptedBy(grammar, [text, text.slice(1), `${text}a`])).toEqual([text]);
  }
});

it('rules that double thirty times take no time to prepare', async () => {
  const grammar = grammarOf({ $case: 'grammar', value: doubling(30) });
  expect(await acceptedBy(grammar, ['aa'])).toEqual([]);
});

it('long rules that are repeated too often are refused', async () => {
  const value = `r ::= ${'"ab" '.repeat(400)}\nroot ::= ${'r '.repeat(60_000)}`;
  await expect(acceptedBy(grammarOf({ $case: 'grammar', value }), [''])).rejects.toThrow(
    'repeats long rules too often',
  );
});
