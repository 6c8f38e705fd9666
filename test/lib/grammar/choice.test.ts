import { describe, expect, it } from 'vitest';
import { constraintGrammar } from '../../../src/lib/grammar/constraint-grammar.js';
import { grammarBuffer } from '../../../src/lib/grammar/grammar-buffer.js';
import { acceptedBy } from '../../support/byte-engine.js';

describe('a choice', () => {
  it('is exactly its options, whatever characters they have', async () => {
    const options = ['yes', 'no', 'no way', 'a"b\\c\n', '"', 'é💩', 'yes'];
    const grammar = constraintGrammar({ $case: 'choice', value: { options } });
    const texts = ['yes', 'no', 'no way', 'a"b\\c\n', '"', 'é💩', 'ye', 'yesno', '', 'a"b\\\\c\n', 'é'];
    expect(await acceptedBy(grammar, texts)).toEqual(texts.slice(0, 6));
  });

  it('may be of tens of thousands of options', () => {
    const options = Array.from({ length: 40_000 }, (_, at) => at.toString(36));
    expect(grammarBuffer(constraintGrammar({ $case: 'choice', value: { options } })).length).toBeGreaterThan(190_000);
  });

  const refused: [string, string[], string, string][] = [
    ['no options', [], 'CONSTRAINT_INVALID', 'options[0]'],
    ['an empty option', ['a', ''], 'CONSTRAINT_UNSUPPORTED', 'options[1]'],
    ['half a surrogate pair', ['a', '\ud83d'], 'CONSTRAINT_INVALID', 'options[1]'],
    ['more text than the limit', ['a'.repeat(300_000)], 'CONSTRAINT_UNSUPPORTED', ''],
  ];
  for (const [what, options, reason, at] of refused) {
    it(`is refused with ${what}`, () => {
      const make = () => constraintGrammar({ $case: 'choice', value: { options } });
      expect(make).toThrow(expect.objectContaining({ reason, metadata: expect.objectContaining({ at }) }));
    });
  }
});
