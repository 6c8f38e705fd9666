import { grammarBuffer } from '../../lib/grammar/grammar-buffer.js';
import { type GivenConstraint, grammarOf } from '../constraints/grammar-of.js';
import type { SpecialTokenNames } from '../constraints/special-token-names.js';

/**
 * Rounds over the samples. V8 compiles the code of the first ones and optimizes it in later ones: a schema takes 3 to 6 ms of
 * processors after 16 rounds (0.5 s of a processor), and 0.8 to 2.4 ms after 120 (1.6 s).
 */
export const ROUNDS = 120;
/** Rounds that follow each other at once; later ones leave the processors to others in between. */
const FIRST_ROUNDS = 16;
const PAUSE_MS = 50;

const text = { type: 'string' };
const schema = (value: object): GivenConstraint => ({ $case: 'jsonSchema', value: JSON.stringify(value) });

/** Constraints of the common kinds, none of them like the one before. */
export const samples = (round: number): readonly GivenConstraint[] => [
  schema({
    type: 'object',
    properties: {
      [`id${round}`]: { type: 'string', pattern: `^[A-Z]{3}-[0-9]{${1 + (round % 9)}}$` },
      kind: { enum: ['book', 'film', `song${round}`, null, 3] },
      price: { type: 'number', minimum: 0, maximum: 1000 + round },
      count: { type: 'integer', exclusiveMinimum: -round },
      created: { type: 'string', format: 'date-time' },
      tags: { type: 'array', items: { ...text, maxLength: 10 + round }, maxItems: 10 },
      author: { $ref: '#/$defs/person' },
      choice: { anyOf: [text, { type: 'boolean' }, { type: 'object', additionalProperties: { type: 'number' } }] },
    },
    required: [`id${round}`, 'kind', 'author'],
    additionalProperties: false,
    $defs: { person: { type: 'object', properties: { name: text, email: { ...text, format: 'email' } } } },
  }),
  schema({
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`f${round}_${i}`, text])),
  }),
  { $case: 'regex', value: `(?:[a-z]{1,${2 + round}}|[0-9]+(?:\\.[0-9]+)?)(?: [^"]*)?` },
  { $case: 'grammar', value: `root ::= item ("," item)*\nitem ::= [a-z]{1,${2 + round}} | "(" root ")"\n` },
];

/**
 * Translates sample constraints, so that the first one of a client takes no longer than later ones. Clients' constraints are
 * translated between two rounds.
 */
export function warmUp(names: SpecialTokenNames, round = 0): void {
  if (round === ROUNDS) return;
  for (const sample of samples(round)) grammarBuffer(grammarOf(sample, names));
  if (round < FIRST_ROUNDS) setImmediate(warmUp, names, round + 1);
  else setTimeout(warmUp, PAUSE_MS, names, round + 1);
}
