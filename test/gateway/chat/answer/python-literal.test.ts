import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonOfPythonLiteral } from '../../../../src/gateway/chat/answer/python-literal.js';
import { runs } from '../../../support/run-size.js';

type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** Python's `repr`: quotes are single, but around a text with single quotes and no double ones. */
function printed(value: Json): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') {
    const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
    const escaped = [...value].map((letter) => {
      if (letter === '\\' || letter === quote) return `\\${letter}`;
      const named = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }[letter];
      const code = letter.codePointAt(0) as number;
      return named ?? (code < 0x20 || code === 0x7f ? `\\x${code.toString(16).padStart(2, '0')}` : letter);
    });
    return `${quote}${escaped.join('')}${quote}`;
  }
  if (Array.isArray(value)) return `[${value.map(printed).join(', ')}]`;
  const pairs = Object.entries(value).map(([key, item]) => `${printed(key)}: ${printed(item)}`);
  return `{${pairs.join(', ')}}`;
}

describe('a list or a dict as Python prints it', () => {
  it('is the JSON of the same value', () => {
    const scalar = fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.boolean(), fc.constant(null));
    const { value } = fc.letrec<{ value: Json; many: Json }>((tie) => ({
      value: fc.oneof({ depthSize: 'small' }, scalar, tie('many')),
      many: fc.oneof(
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(
          fc.string({ unit: 'grapheme' }).filter((key) => key !== '__proto__'),
          tie('value'),
          { maxKeys: 4 },
        ),
      ),
    }));
    fc.assert(
      fc.property(fc.array(value, { maxLength: 4 }), (values) => {
        expect(JSON.parse(jsonOfPythonLiteral(printed(values)) as string)).toEqual(values);
        expect(JSON.parse(jsonOfPythonLiteral(printed({ values })) as string)).toEqual({ values });
      }),
      { numRuns: runs(300) },
    );
  });

  it.each([
    ["(1, 'a')", '[1, "a"]'],
    ['(1,)', '[1]'],
    ['[123456789012345678901234567890, 1.50, -0.0, 1e+16]', '[123456789012345678901234567890, 1.50, -0.0, 1e+16]'],
    [String.raw`['\x41\u0042\U0001F600\101\'"', "\q"]`, String.raw`["AB😀A'\"", "\\q"]`],
    [" [ 1 , { 'a' : [ ] } , ] ", '[1, {"a": []}]'],
  ])('%s', (text, json) => {
    expect(JSON.parse(jsonOfPythonLiteral(text) as string)).toEqual(JSON.parse(json));
  });

  it.each([
    ...[
      '',
      '1',
      "'a'",
      'True',
      '[',
      "['a'",
      "['a]",
      '[1 2]',
      '[1]]',
      '[1],',
      '{1: 2}',
      "{'a'}",
      "{'a': }",
      '[inf]',
      '[01]',
    ],
    ...["['a\n']", '[__import__]', String.raw`['\UFFFFFFFF']`, '["\\', '['.repeat(100_000)],
  ])('is not %j', (text) => {
    expect(jsonOfPythonLiteral(text)).toBeUndefined();
  });
});
