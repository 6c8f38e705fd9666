import { type CodePointSet, codePoints, complement, has, intersection } from './code-points.js';
import { characters, choice, type Expression, type Grammar, repeat, sequence, text } from './grammar.js';

const ANGLE = 0x3c;
/**
 * Characters that stand for themselves in a JSON string: neither a quotation mark nor a backslash nor a control character; nor
 * the bracket that tags begin with, where a tag ends the value.
 */
const PLAIN = complement(codePoints([0, 0x1f], [0x22, 0x22], [0x5c, 0x5c]));
const PLAIN_WITHOUT_ANGLES = intersection(PLAIN, complement(codePoints([ANGLE, ANGLE])));
const plainIn = ({ strings }: Grammar): CodePointSet => (strings === 'plain' ? PLAIN : PLAIN_WITHOUT_ANGLES);

/** The letter after the backslash, by what it stands for. */
const SHORT = new Map([
  [0x08, 'b'],
  [0x09, 't'],
  [0x0a, 'n'],
  [0x0c, 'f'],
  [0x0d, 'r'],
  [0x22, '"'],
  [0x5c, '\\'],
]);

const HEX = '0123456789ABCDEFabcdef';
const HEX_DIGIT = characters(oneOf(HEX));
const HIGH_SURROGATE = sequence(characters(oneOf('Dd')), characters(oneOf('89ABab')), HEX_DIGIT, HEX_DIGIT);
const LOW_SURROGATE = sequence(characters(oneOf('Dd')), characters(oneOf('CDEFcdef')), HEX_DIGIT, HEX_DIGIT);

function oneOf(letters: string): CodePointSet {
  return codePoints(...[...letters].map((letter): [number, number] => [letter.charCodeAt(0), letter.charCodeAt(0)]));
}

/**
 * A character of a set as JSON writes it, in one way each: two ways to write a name would let a property be there twice, and
 * a pattern would have to know both.
 */
export function writtenInJson(set: CodePointSet, grammar: Grammar): Expression {
  const isOne = set.length === 2 && set[0] === set[1];
  if (isOne && has(plainIn(grammar), set[0]!)) return characters(set);
  const plain = intersection(set, plainIn(grammar));
  const options = plain.length > 0 ? [characters(plain)] : [];
  if (grammar.strings !== 'plain' && has(set, ANGLE)) options.push(text('\\u003c'));
  const escaped = intersection(set, ESCAPED);
  if (escaped.length === ESCAPED.length && escaped.every((bound, index) => bound === ESCAPED[index])) {
    return choice(
      ...options,
      grammar.shared('escapes', 'escapes', () => choice(...ALL_ESCAPES)),
    );
  }
  return choice(...options, ...(escaped.length === 0 ? [] : escapesOf(escaped)));
}

/** Characters that a string of JSON holds only behind a backslash. */
const ESCAPED = complement(PLAIN);
const ALL_ESCAPES = escapesOf(ESCAPED);

function escapesOf(set: CodePointSet): Expression[] {
  const options: Expression[] = [];
  const letters = [...SHORT].filter(([codePoint]) => has(set, codePoint)).map(([, letter]) => letter);
  if (letters.length > 0) options.push(sequence(text('\\'), characters(oneOf(letters.join('')))));
  for (const high of [0, 1]) {
    const digits = [...'0123456789abcdef'].filter((_, low) => {
      const codePoint = 16 * high + low;
      return has(set, codePoint) && !SHORT.has(codePoint);
    });
    if (digits.length > 0) options.push(sequence(text(`\\u00${high}`), characters(oneOf(digits.join('')))));
  }
  return options;
}

/** A constant as JSON writes it. */
export function constantInJson(value: unknown, { strings }: Grammar): Expression {
  const json = JSON.stringify(value);
  return text(strings === 'plain' ? json : json.replaceAll('<', '\\u003c'));
}

/** Rest of an unrestricted string behind its quotation mark, in any way JSON knows; surrogates only in pairs. */
export function anyJsonCharacters(grammar: Grammar): Expression {
  const escaped = grammar.shared('escape', 'escape', () =>
    choice(
      characters(oneOf('"\\/bfnrt')),
      sequence(text('u'), characters(oneOf(HEX.replaceAll(/[Dd]/g, ''))), HEX_DIGIT, HEX_DIGIT, HEX_DIGIT),
      sequence(text('u'), characters(oneOf('Dd')), characters(oneOf('01234567')), HEX_DIGIT, HEX_DIGIT),
      sequence(text('u'), HIGH_SURROGATE, text('\\u'), LOW_SURROGATE),
    ),
  );
  const plain = repeat(characters(plainIn(grammar)), 0, Number.POSITIVE_INFINITY);
  return sequence(plain, repeat(sequence(text('\\'), escaped, plain), 0, Number.POSITIVE_INFINITY));
}
