import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Decimal, integerOf } from '../../../src/lib/json/decimal.js';
import {
  isJsonObject,
  JsonDepthError,
  JsonNumber,
  jsonText,
  MAX_JSON_DEPTH,
  parseJson,
  roundedNumbers,
} from '../../../src/lib/json/exact-json.js';
import { numberTexts, writtenJson } from '../../support/exact-values.js';
import { runs } from '../../support/run-size.js';

describe('the exact reader', () => {
  it('keeps the spelling of each number and the order of all keys', () => {
    fc.assert(
      fc.property(writtenJson, ({ text, compact }) => {
        expect(jsonText(parseJson(text))).toBe(compact);
      }),
      { numRuns: runs(5000) },
    );
  });

  it('reads what JSON.parse reads, but for what that loses', () => {
    fc.assert(
      fc.property(writtenJson, ({ text }) => {
        const read = roundedNumbers(parseJson(text));
        expect(JSON.stringify(read)).toBe(jsonText(read));
        expect(read).toEqual(JSON.parse(text));
      }),
      { numRuns: runs(5000) },
    );
  });

  it('takes exactly the texts that JSON.parse takes', () => {
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
      { numRuns: runs(20_000) },
    );
  });

  it('keeps the last of two values of a key, in the place of the first, however the key is escaped', () => {
    expect(jsonText(parseJson('{"a": 1, "b": 2, "\\u0061": 3}'))).toBe('{"a":3,"b":2}');
  });

  it('lists integer keys and __proto__ like all others', () => {
    const value = parseJson('{"b": 1, "10": 2, "__proto__": 3, "2": 4}');
    expect(Object.entries(value as object)).toEqual([
      ['b', 1],
      ['10', 2],
      ['__proto__', 3],
      ['2', 4],
    ]);
    expect(isJsonObject(value) && Object.hasOwn(value, '__proto__') && value.constructor).toBe(undefined);
  });

  it.each(['[', '{"a":'])('refuses %s 200,000 times by the depth, and reads as many as the limit', (opening) => {
    const closing = opening === '[' ? ']' : '}';
    const nested = (depth: number) => `${opening.repeat(depth - 1)}[]${closing.repeat(depth - 1)}`;
    expect(() => parseJson(nested(MAX_JSON_DEPTH + 1))).toThrow(JsonDepthError);
    expect(() => parseJson(nested(200_000))).toThrow(`deeper than ${MAX_JSON_DEPTH} levels`);
    expect(jsonText(parseJson(nested(MAX_JSON_DEPTH)))).toBe(nested(MAX_JSON_DEPTH));
  });

  it('names the outermost member that is too deep', () => {
    const deep = `${'['.repeat(8000)}${']'.repeat(8000)}`;
    expect(() => parseJson(`{"model": "m", "tools": ${deep}}`)).toThrow(expect.objectContaining({ member: 'tools' }));
    expect(() => parseJson(deep)).toThrow(expect.objectContaining({ member: undefined }));
  });

  it('does not let a number that JavaScript rounds out by JSON.stringify', () => {
    expect(() => JSON.stringify(parseJson('[1.0]'))).toThrow('1.0');
    expect(parseJson('9007199254740993')).toEqual(new JsonNumber('9007199254740993'));
    expect(parseJson('9007199254740991')).toBe(Number.MAX_SAFE_INTEGER);
  });
});

describe('a decimal', () => {
  /** The value as a fraction of integers. */
  const fraction = (text: string): readonly [bigint, bigint] => {
    const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e');
    const [whole = '', part = ''] = mantissa.split('.');
    const power = BigInt(exponent) - BigInt(part.length);
    return [BigInt(`${whole}${part}`) * 10n ** (power > 0n ? power : 0n), 10n ** (power < 0n ? -power : 0n)];
  };

  it('equals another where their values do', () => {
    fc.assert(
      fc.property(numberTexts, numberTexts, (a, b) => {
        const [top, bottom] = fraction(a);
        const [otherTop, otherBottom] = fraction(b);
        expect(new Decimal(a).key === new Decimal(b).key).toBe(top * otherBottom === otherTop * bottom);
      }),
      { numRuns: runs(3000) },
    );
  });

  it('is written without an exponent as the same value, in as many digits as it says', () => {
    fc.assert(
      fc.property(numberTexts, (text) => {
        const decimal = new Decimal(text);
        const plain = decimal.plainText;
        expect(plain).toMatch(/^-?(0|[1-9]\d*)(\.\d*[1-9])?$/);
        expect(new Decimal(plain).key).toBe(decimal.key);
        const { whole, fraction: part } = decimal.magnitude;
        expect(whole.length + part.length - (whole === '0' ? 1 : 0)).toBeLessThanOrEqual(Number(decimal.plainLength));
        expect(decimal.isInteger).toBe(!plain.includes('.'));
      }),
      { numRuns: runs(3000) },
    );
  });

  it('tells exponents apart that no double holds', () => {
    expect(new Decimal('1e9007199254740993').key).not.toBe(new Decimal('1e9007199254740992').key);
    expect(new Decimal('0e9007199254740993').key).toBe(new Decimal('-0.0').key);
  });

  it('is an integer of a field whatever its spelling', () => {
    expect(
      ['16.0', '1.6e1', '-0', '18446744073709551615', '1.5', '1e41', '"1"'].map((text) => integerOf(parseJson(text))),
    ).toEqual([16n, 16n, 0n, 18446744073709551615n, undefined, undefined, undefined]);
  });
});
