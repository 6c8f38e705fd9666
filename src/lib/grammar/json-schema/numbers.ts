import type { Decimal } from '../../json/decimal.js';
import type { Automata, Automaton } from '../automata.js';
import type { Budget } from '../budget.js';
import { codePoints, DIGITS } from '../code-points.js';
import { CONSTRAINT_LIMITS } from '../limits.js';
import type { Pattern } from '../regex-syntax.js';

/** A set of numbers. The automaton, where there is one, reads plain decimal texts and goes by their value: 1 and 1.0 are one. */
export interface NumberSet {
  readonly automaton?: Automaton;
  readonly isInteger: boolean;
  /** Only these, where given; each once. */
  readonly values?: readonly Decimal[];
}

export const ALL_NUMBERS: NumberSet = { isInteger: false };

const set = (first: string, last = first): Pattern => ({
  kind: 'set',
  set: codePoints([first.charCodeAt(0), last.charCodeAt(0)]),
});
const sequence = (...parts: Pattern[]): Pattern => ({ kind: 'sequence', parts });
const choice = (...options: Pattern[]): Pattern => ({ kind: 'choice', options });
const many = (what: Pattern, min: number, max = Number.POSITIVE_INFINITY): Pattern => ({
  kind: 'repeat',
  what,
  min,
  max,
});
const digits = (text: string) => sequence(...[...text].map((digit) => set(digit)));
const DIGIT: Pattern = { kind: 'set', set: DIGITS };
const FRACTION = many(sequence(set('.'), many(DIGIT, 1)), 0, 1);
const WHOLE = choice(set('0'), sequence(set('1', '9'), many(DIGIT, 0)));
const NO_FRACTION = many(sequence(set('.'), many(set('0'), 1)), 0, 1);

/**
 * A constant as an answer writes it: as the schema spells it, but an integer as digits alone, which readers of typed languages want.
 */
export function constantNumber(value: Decimal, isInteger: boolean): string {
  return isInteger && value.plainLength <= CONSTRAINT_LIMITS.digits ? value.plainText : value.text;
}

/** Magnitudes above a non-negative bound: more digits, or the first that differs is larger. */
function magnitudesAbove(whole: string, fraction: string): Pattern {
  const larger = (digit: string) => (digit === '9' ? undefined : set(String(Number(digit) + 1), '9'));
  const options: Pattern[] = [
    sequence(set('1', '9'), many(DIGIT, whole === '0' ? 0 : whole.length, Number.POSITIVE_INFINITY), FRACTION),
  ];
  if (whole !== '0') {
    [...whole].forEach((digit, index) => {
      const next = larger(digit);
      const after = whole.length - index - 1;
      if (next !== undefined)
        options.push(sequence(digits(whole.slice(0, index)), next, many(DIGIT, after, after), FRACTION));
    });
  }
  const point = sequence(digits(whole), set('.'));
  [...fraction].forEach((digit, index) => {
    const next = larger(digit);
    if (next !== undefined) options.push(sequence(point, digits(fraction.slice(0, index)), next, many(DIGIT, 0)));
  });
  options.push(sequence(point, digits(fraction), many(set('0'), 0), set('1', '9'), many(DIGIT, 0)));
  return choice(...options);
}

function magnitudeOf(whole: string, fraction: string): Pattern {
  if (fraction === '') return sequence(digits(whole), NO_FRACTION);
  return sequence(digits(whole), set('.'), digits(fraction), many(set('0'), 0));
}

/** Automata of numbers, each made once for a constraint. */
export class NumberAutomata {
  readonly #known = new Map<string, Automaton>();

  constructor(readonly automata: Automata) {}

  get work(): Budget {
    return this.automata.work;
  }

  #matching(pattern: Pattern): Automaton {
    return this.automata.regex(this.automata.terms.ofPattern(pattern));
  }

  #once(key: string, make: () => Automaton): Automaton {
    let found = this.#known.get(key);
    if (found === undefined) {
      found = make();
      this.#known.set(key, found);
    }
    return found;
  }

  /** Digits before and after the point. @throws GrammarError `CONSTRAINT_UNSUPPORTED` for too many */
  #magnitude(value: Decimal): Decimal['magnitude'] {
    this.#refuseLength(value);
    return value.magnitude;
  }

  #refuseLength({ plainLength }: Decimal): void {
    if (plainLength <= CONSTRAINT_LIMITS.digits) return;
    this.work.exceed(`it has a number of more than ${CONSTRAINT_LIMITS.digits} digits, which no grammar counts`);
  }

  /** Every plain decimal text: no exponent. */
  all(): Automaton {
    return this.#once('all', () => this.#matching(sequence(many(set('-'), 0, 1), WHOLE, FRACTION)));
  }

  /** Every number that is an integer by value, 1.0 too. */
  integers(): Automaton {
    return this.#once('integers', () => this.#matching(sequence(many(set('-'), 0, 1), WHOLE, NO_FRACTION)));
  }

  /** Integers as they are written: no point at all. */
  integerTexts(): Automaton {
    return this.#once('integer texts', () => this.#matching(sequence(many(set('-'), 0, 1), WHOLE)));
  }

  /** All numbers that are not in this automaton. */
  complement(automaton: Automaton): Automaton {
    return this.automata.both(this.all(), this.automata.not(automaton));
  }

  above(bound: Decimal, isInclusive: boolean): Automaton {
    return this.#once(`${isInclusive ? '>=' : '>'}${bound.key}`, () => {
      if (!isInclusive) return this.complement(this.below(bound, true));
      const { isNegative } = bound;
      const { whole, fraction } = this.#magnitude(bound);
      const more = choice(magnitudesAbove(whole, fraction), magnitudeOf(whole, fraction));
      const zero = magnitudeOf('0', '');
      if (!isNegative) return this.#matching(bound.isZero ? choice(more, sequence(set('-'), zero)) : more);
      // From a negative bound on: all but the negative numbers of a larger magnitude.
      return this.complement(this.#matching(sequence(set('-'), magnitudesAbove(whole, fraction))));
    });
  }

  below(bound: Decimal, isInclusive: boolean): Automaton {
    return this.#once(`${isInclusive ? '<=' : '<'}${bound.key}`, () => {
      if (!isInclusive) return this.complement(this.above(bound, true));
      const { isNegative } = bound;
      const { whole, fraction } = this.#magnitude(bound);
      const more = choice(magnitudesAbove(whole, fraction), magnitudeOf(whole, fraction));
      if (isNegative) return this.#matching(sequence(set('-'), more));
      return this.complement(this.#matching(magnitudesAbove(whole, fraction)));
    });
  }

  /** The numbers that equal one of these. */
  values(values: readonly Decimal[]): Automaton {
    return this.#once(`=${values.map(({ key }) => key).join()}`, () => {
      const options = values.map((value) => {
        const { whole, fraction } = this.#magnitude(value);
        const magnitude = magnitudeOf(whole, fraction);
        const sign = value.isZero ? many(set('-'), 0, 1) : value.isNegative ? set('-') : sequence();
        return sequence(sign, magnitude);
      });
      return this.#matching(choice(...options));
    });
  }

  /**
   * The multiples of a divisor: digits are read one by one, the remainder is the state.
   *
   * @returns undefined where there are too many remainders
   */
  multiples(divisor: Decimal): Automaton | undefined {
    const { whole, fraction } = this.#magnitude(divisor);
    const places = fraction.length;
    const modulus = Number(whole + fraction);
    if (!Number.isSafeInteger(modulus) || modulus * (places + 2) > CONSTRAINT_LIMITS.states - 4) return undefined;
    // Digits read after the point: -1 where there is none yet.
    type State = { readonly remainder: number; readonly places: number; readonly isStarted: boolean };
    const next = (state: State, letter: string): State | undefined => {
      if (letter === '-') return state.isStarted ? undefined : { ...state, isStarted: true };
      if (letter === '.') return state.places < 0 ? { ...state, places: 0, isStarted: true } : undefined;
      if (state.places >= places) return letter === '0' ? state : undefined;
      const remainder = (state.remainder * 10 + Number(letter)) % modulus;
      return { remainder, places: state.places < 0 ? -1 : state.places + 1, isStarted: true };
    };
    const divides = ({ remainder, places: read }: State) => {
      let left = remainder;
      for (let place = Math.max(read, 0); place < places; place++) left = (left * 10) % modulus;
      return left === 0;
    };
    const made = this.automata.machine<State>(
      { remainder: 0, places: -1, isStarted: false },
      {
        letters: '0123456789.-',
        key: (state) => `${state.remainder},${state.places},${state.isStarted}`,
        next,
        accepts: divides,
      },
    );
    return this.automata.both(this.all(), made);
  }

  both(a: NumberSet, b: NumberSet): NumberSet {
    const values = a.values ?? b.values;
    const isInteger = a.isInteger || b.isInteger;
    if (values !== undefined)
      return { isInteger, values: values.filter((value) => this.has(a, value) && this.has(b, value)) };
    if (a.automaton === undefined || a.automaton === b.automaton) return { ...b, isInteger };
    if (b.automaton === undefined) return { ...a, isInteger };
    return { isInteger, automaton: this.automata.both(a.automaton, b.automaton) };
  }

  has({ automaton, isInteger, values }: NumberSet, value: Decimal): boolean {
    if (values !== undefined && !values.some(({ key }) => key === value.key)) return false;
    if (isInteger && !value.isInteger) return false;
    if (automaton === undefined) return true;
    this.#refuseLength(value);
    return automaton.has(value.plainText);
  }

  isEmpty({ automaton, isInteger, values }: NumberSet): boolean {
    if (values !== undefined) return values.length === 0;
    if (automaton === undefined) return false;
    return this.automata.isEmpty(isInteger ? this.automata.both(automaton, this.integerTexts()) : automaton);
  }

  /** The numbers that are not in the set. */
  not({ automaton, isInteger, values }: NumberSet): NumberSet {
    let inside = values !== undefined ? this.values(values) : (automaton ?? this.all());
    if (isInteger) inside = this.automata.both(inside, this.integers());
    return { isInteger: false, automaton: this.complement(inside) };
  }
}
