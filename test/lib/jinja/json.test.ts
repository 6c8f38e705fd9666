import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Budget } from '../../../src/lib/jinja/budget.js';
import { parseJson, toJson } from '../../../src/lib/jinja/json.js';
import { runs } from '../../support/run-size.js';

const style = { ensureAscii: false, indent: undefined, itemSeparator: ',', keySeparator: ':', sortKeys: false };
const rewrite = (text: string) => toJson(parseJson(text), style, new Budget({ steps: 1e6, units: 1e6 }));

describe('JSON', () => {
  it('is read and written as JavaScript does where that loses nothing', () => {
    const keys = fc.string().filter((key) => !/^\d+$/.test(key));
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.maxSafeInteger(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('any'), { maxLength: 4 }),
        fc.dictionary(keys, tie('any'), { maxKeys: 4 }),
      ),
    })).any;
    fc.assert(
      fc.property(value, fc.constantFrom(undefined, 1, '\t\r\n'), (json, space) => {
        expect(rewrite(JSON.stringify(json, undefined, space))).toBe(JSON.stringify(json));
      }),
    );
  });

  it('takes exactly the texts that JavaScript takes', () => {
    const text = fc.string({
      unit: fc.constantFrom(
        ...'{}[],:"\\ \n\t0123-+.eEtrufalsn/',
        'true',
        'null',
        '"a"',
        '\\u0041',
        '\u0001',
        '\u00a0',
      ),
      maxLength: 12,
    });
    const takes = (parse: () => unknown) => {
      try {
        parse();
        return true;
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError);
        return false;
      }
    };
    fc.assert(
      fc.property(text, (json) => {
        expect(takes(() => parseJson(json))).toBe(takes(() => JSON.parse(json)));
      }),
      { numRuns: runs(5000) },
    );
  });

  it('keeps the last of two values of a key, in the place of the first', () => {
    expect(rewrite('{"a": 1, "b": 2, "a": 3}')).toBe('{"a":3,"b":2}');
  });
});
