import { type CodePointSet, codePoints, complement, intersection } from './code-points.js';
import { characters, choice, type Expression, type Grammar, sequence, text } from './grammar.js';

/** What stands in a JSON string as itself: neither a quotation mark nor a backslash nor a control character. */
export const PLAIN = complement(codePoints([0, 0x1f], [0x22, 0x22], [0x5c, 0x5c]));

const SHORT = new Map([
  [0x08, '\\b'],
  [0x09, '\\t'],
  [0x0a, '\\n'],
  [0x0c, '\\f'],
  [0x0d, '\\r'],
  [0x22, '\\"'],
  [0x5c, '\\\\'],
]);

/**
 * A character of a set as JSON writes it, in one way each: two ways to write a name would let a property be there twice, and
 * a pattern would have to know both.
 */
export function writtenInJson(set: CodePointSet): Expression {
  const plain = intersection(set, PLAIN);
  const options = plain.length > 0 ? [characters(plain)] : [];
  const isIn = (codePoint: number) =>
    set.some((first, index) => index % 2 === 0 && first <= codePoint && codePoint <= set[index + 1]!);
  for (const [codePoint, written] of SHORT) if (isIn(codePoint)) options.push(text(written));
  for (const high of [0, 1]) {
    const low = Array.from({ length: 16 }, (_, digit) => digit).filter((digit) => {
      const codePoint = 16 * high + digit;
      return isIn(codePoint) && !SHORT.has(codePoint);
    });
    const digits = codePoints(
      ...low.map((digit): [number, number] => [digit.toString(16).charCodeAt(0), digit.toString(16).charCodeAt(0)]),
    );
    if (digits.length > 0) options.push(sequence(text(`\\u00${high}`), characters(digits)));
  }
  return choice(...options);
}

const HEX = codePoints([0x30, 0x39], [0x41, 0x46], [0x61, 0x66]);
const hexOf = (digits: string) =>
  codePoints(...[...digits].map((digit): [number, number] => [digit.charCodeAt(0), digit.charCodeAt(0)]));

/** One character of a string about which nothing is said, in any way that JSON knows; surrogates only in pairs. */
export function anyJsonCharacter(grammar: Grammar): Expression {
  return grammar.shared('character', 'character', () => {
    const hex = characters(HEX);
    const escaped = grammar.add(
      'escape',
      choice(
        characters(
          codePoints(
            ...[...'"\\/bfnrt'].map((letter): [number, number] => [letter.charCodeAt(0), letter.charCodeAt(0)]),
          ),
        ),
        sequence(text('u'), characters(hexOf('0123456789ABCEFabcef')), hex, hex, hex),
        sequence(text('u'), characters(hexOf('Dd')), characters(hexOf('01234567')), hex, hex),
        sequence(
          text('u'),
          characters(hexOf('Dd')),
          characters(hexOf('89ABab')),
          hex,
          hex,
          text('\\u'),
          characters(hexOf('Dd')),
          characters(hexOf('CDEFcdef')),
          hex,
          hex,
        ),
      ),
    );
    return choice(characters(PLAIN), sequence(text('\\'), escaped));
  });
}
