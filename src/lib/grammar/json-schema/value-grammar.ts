import type { Automaton } from '../automata.js';
import { AS_THEY_ARE, automatonExpression, type Writing } from '../automaton-grammar.js';
import type { Budget } from '../budget.js';
import { codePoints, DIGITS, EVERYTHING } from '../code-points.js';
import {
  characters,
  choice,
  choiceOf,
  type Expression,
  type Grammar,
  NOTHING,
  optional,
  repeat,
  sequence,
  text,
} from '../grammar.js';
import { anyJsonCharacters, constantInJson, writtenInJson } from '../json-strings.js';
import { unsupported } from '../refusal.js';
import { arrayExpression } from './array-grammar.js';
import type { SchemaNode, SchemaObject } from './document.js';
import type { Expansion } from './expand.js';
import { constantNumber, type NumberSet } from './numbers.js';
import { objectExpression } from './object-grammar.js';
import { inPlace, propertyOrder } from './property-order.js';
import { ALL_ARRAYS, ALL_OBJECTS, ANY_VALUE, type Conjunction, keyOf, type Shape, type StringSet } from './shape.js';

const MOST = Number.POSITIVE_INFINITY;
const DIGIT = characters(DIGITS);
/** Writes shapes as rules. White space: none or one space after a colon, else what `space` says. */
export class ValueGrammar {
  /** Nodes and automata are numbered by the document: another one's in the same grammar have the same numbers. */
  readonly #id: string;

  constructor(
    readonly expansion: Expansion,
    readonly grammar: Grammar,
  ) {
    this.#id = grammar.fresh();
  }

  /** A character of a set as JSON writes it in this grammar. */
  readonly #written: Writing = { key: 'json', of: (set) => writtenInJson(set, this.grammar) };

  /** A property's name, of those that the automaton takes. */
  name(names: Automaton): Expression {
    return sequence(text('"'), automatonExpression(names, this.#written, this.grammar), text('"'));
  }

  get work(): Budget {
    return this.grammar.work;
  }

  /** A value that satisfies all literals. */
  value(conjunction: Conjunction): Expression {
    const key = keyOf(conjunction);
    if (key === '') return this.#any();
    const stem = conjunction.map(({ node }) => stemOf(node.at)).find((name) => name !== '') ?? 'value';
    return this.grammar.shared(`value ${this.#id} ${key}`, stem, () =>
      this.ofShape(this.expansion.shapeOf(conjunction), conjunction),
    );
  }

  ofShape(shape: Shape, conjunction: Conjunction): Expression {
    if (shape === ANY_VALUE) return this.#any();
    Object.assign(this.work, { at: conjunction[0]?.node.at ?? '', keyword: '' });
    const { constants, numbers, strings, arrays, objects } = shape;
    const order = objects.some((object) => object !== ALL_OBJECTS)
      ? propertyOrder(
          conjunction.map(({ node }) => node),
          this.expansion.document,
        )
      : [];
    return choiceOf([
      ...[null, true, false].filter((constant) => constants.has(constant)).map((constant) => text(String(constant))),
      ...numbers.map((set) => this.#number(set)),
      ...strings.map((set) => this.string(set)),
      ...arrays.map((array) => (array === ALL_ARRAYS ? this.#anyArray() : arrayExpression(array, conjunction, this))),
      ...objects.map((object) =>
        object === ALL_OBJECTS ? this.anyObject() : objectExpression(object, order, conjunction, this),
      ),
    ]);
  }

  /** The refusal of a keyword that one of the schemas of a value has, by where it is. */
  refusal(conjunction: Conjunction, keywords: readonly string[], sentence: string) {
    const nodes = conjunction.map(({ node }) => node);
    const isIt = ({ schema }: SchemaNode, keyword: string) => Object.hasOwn(schema as SchemaObject, keyword);
    const places = inPlace(nodes, this.expansion.document).flatMap((node) =>
      keywords.filter((keyword) => isIt(node, keyword)).map((keyword) => ({ at: `${node.at}/${keyword}`, keyword })),
    );
    const place = places[0] ?? { at: nodes[0]?.at ?? '', keyword: keywords[0] ?? '' };
    return unsupported('json_schema', place, sentence);
  }

  /** Between brackets, braces and what they hold: nothing, a space, or a line break and an indent, which is bounded. */
  space(): Expression {
    return this.grammar.shared('space', 'space', () =>
      choice(NOTHING, text(' '), sequence(text('\n'), repeat(text(' '), 0, MOST_INDENT))),
    );
  }

  separator(): Expression {
    return this.grammar.shared('separator', 'separator', () => sequence(text(','), this.space()));
  }

  colon(): Expression {
    return this.grammar.shared('colon', 'colon', () => sequence(text(':'), optional(text(' '))));
  }

  #any(): Expression {
    return this.grammar.shared('any', 'any', () =>
      choice(
        text('null'),
        text('true'),
        text('false'),
        this.#number({ isInteger: false }),
        this.string({ min: 0, max: MOST }),
        this.#anyArray(),
        this.anyObject(),
      ),
    );
  }

  #anyArray(): Expression {
    return this.grammar.shared('array', 'array', () => {
      const items = sequence(this.#any(), repeat(sequence(this.separator(), this.#any()), 0, MOST), this.space());
      return sequence(text('['), this.space(), optional(items), text(']'));
    });
  }

  anyObject(): Expression {
    return this.grammar.shared('object', 'object', () => {
      const member = sequence(this.string({ min: 0, max: MOST }), this.colon(), this.#any());
      const members = sequence(member, repeat(sequence(this.separator(), member), 0, MOST), this.space());
      return sequence(text('{'), this.space(), optional(members), text('}'));
    });
  }

  #number({ automaton, isInteger, values }: NumberSet): Expression {
    const { numbers } = this.expansion;
    if (values !== undefined) return choiceOf(values.map((value) => text(constantNumber(value, isInteger))));
    if (automaton !== undefined) {
      const written = isInteger ? this.grammar.automata.both(automaton, numbers.integerTexts()) : automaton;
      return automatonExpression(written, AS_THEY_ARE, this.grammar);
    }
    const integer = this.grammar.shared('integer', 'integer', () =>
      sequence(
        optional(text('-')),
        choice(text('0'), sequence(characters(codePoints([0x31, 0x39])), repeat(DIGIT, 0, MOST))),
      ),
    );
    if (isInteger) return integer;
    return this.grammar.shared('number', 'number', () => {
      const sign = optional(characters(codePoints([0x2b, 0x2b], [0x2d, 0x2d])));
      const exponent = sequence(characters(codePoints([0x45, 0x45], [0x65, 0x65])), sign, repeat(DIGIT, 1, MOST));
      return sequence(integer, optional(sequence(text('.'), repeat(DIGIT, 1, MOST))), optional(exponent));
    });
  }

  /** A JSON string with its quotation marks. */
  string(set: StringSet): Expression {
    const { automaton, min, max, values } = set;
    if (values !== undefined) return choiceOf(values.map((value) => constantInJson(value, this.grammar)));
    if (automaton !== undefined) {
      const counted = this.expansion.shapes.automatonOf(set);
      return sequence(text('"'), automatonExpression(counted, this.#written, this.grammar), text('"'));
    }
    return this.grammar.shared(`string ${min} ${max}`, 'string', () =>
      sequence(text('"'), this.#counted(min, max), text('"')),
    );
  }

  /** So many characters, each in one way of writing. */
  #counted(min: number, max: number): Expression {
    if (min === 0 && max === MOST) return anyJsonCharacters(this.grammar);
    const one = writtenInJson(EVERYTHING, this.grammar);
    return max === MOST ? sequence(repeat(one, min, min), anyJsonCharacters(this.grammar)) : repeat(one, min, max);
  }
}

/** Ten levels of two spaces. */
const MOST_INDENT = 20;

/** A rule is called after the last name of its pointer, so that a grammar can be read. */
function stemOf(at: string): string {
  const last = at.slice(at.lastIndexOf('/') + 1).replace(/[^A-Za-z]/g, '');
  return last.slice(0, 20).toLowerCase();
}
