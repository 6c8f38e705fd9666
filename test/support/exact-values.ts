import fc from 'fast-check';

/** Spellings of numbers: integers of up to 41 digits, decimals, exponents, zeros with a sign. */
export const numberTexts: fc.Arbitrary<string> = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.oneof(
      fc.constantFrom('0', '1', '9007199254740991', '9007199254740992', '9007199254740993', `1${'0'.repeat(40)}`),
      fc.bigInt({ min: 0n, max: 10n ** 41n }).map(String),
      fc.nat({ max: 300 }).map(String),
    ),
    fc.oneof(
      { weight: 3, arbitrary: fc.constant('') },
      { weight: 1, arbitrary: fc.constantFrom('.0', '.50', '.1234567890123456789', '.000001') },
    ),
    fc.oneof(
      { weight: 5, arbitrary: fc.constant('') },
      { weight: 1, arbitrary: fc.constantFrom('e0', 'E2', 'e-3', 'e+21') },
    ),
  )
  .map((parts) => parts.join(''));

/** Keys that JavaScript lists, finds or writes in a way of its own. */
export const oddKeys: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    '10',
    '2',
    '0',
    '01',
    '4294967295',
    '',
    '__proto__',
    'constructor',
    'toString',
    'é',
    '"',
    '\\',
    '\n',
    'a/b',
  ),
  fc.string({ unit: 'grapheme', maxLength: 3 }),
  fc.nat({ max: 20 }).map(String),
);

/** A text of JSON and what its compact form is. */
export interface WrittenJson {
  readonly text: string;
  readonly compact: string;
}

const scalar = (text: string): WrittenJson => ({ text, compact: text });
const space = fc.constantFrom('', '', ' ', '\n\t', '\r\n ');

/** JSON of any kind, with white space, and without a key that comes twice. */
export const writtenJson: fc.Arbitrary<WrittenJson> = fc.letrec<{ any: WrittenJson }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    numberTexts.map(scalar),
    fc.constantFrom('null', 'true', 'false').map(scalar),
    fc.string({ unit: 'grapheme' }).map((text) => scalar(JSON.stringify(text))),
    fc.tuple(fc.array(tie('any'), { maxLength: 4 }), space).map(([items, gap]) => ({
      text: `[${gap}${items.map(({ text }) => text).join(`${gap},${gap}`)}${gap}]`,
      compact: `[${items.map(({ compact }) => compact).join(',')}]`,
    })),
    fc
      .tuple(fc.uniqueArray(fc.tuple(oddKeys, tie('any')), { maxLength: 4, selector: ([key]) => key }), space)
      .map(([members, gap]) => ({
        text: `{${gap}${members.map(([key, { text }]) => `${JSON.stringify(key)}${gap}:${gap}${text}`).join(`${gap},${gap}`)}${gap}}`,
        compact: `{${members.map(([key, { compact }]) => `${JSON.stringify(key)}:${compact}`).join(',')}}`,
      })),
  ),
})).any;
