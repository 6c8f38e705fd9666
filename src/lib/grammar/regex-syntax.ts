import {
  type CodePointSet,
  codePoints,
  complement,
  DIGITS,
  LINE_TERMINATORS,
  only,
  SPACE,
  unionOf,
  WORD,
} from './code-points.js';
import { CONSTRAINT_LIMITS } from './limits.js';
import { unicodeProperty } from './unicode-properties.js';

/** A regular expression, read. `start` and `end` are ^ and $. */
export type Pattern =
  | { readonly kind: 'set'; readonly set: CodePointSet }
  | { readonly kind: 'sequence'; readonly parts: readonly Pattern[] }
  | { readonly kind: 'choice'; readonly options: readonly Pattern[] }
  | { readonly kind: 'repeat'; readonly what: Pattern; readonly min: number; readonly max: number }
  | { readonly kind: 'start' | 'end' }
  | { readonly kind: 'lookahead'; readonly what: Pattern; readonly negative: boolean };

/** Error in a regular expression, its position (UTF-16 units), and the name of the construct. */
export class PatternError extends Error {
  override readonly name = 'PatternError';

  constructor(
    readonly offset: number,
    readonly construct: string,
    message: string,
    /** True for wrong syntax, rather than something that is not expressed. */
    readonly isInvalid = false,
  ) {
    super(message);
  }
}

const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13 };
const CLASSES: Readonly<Record<string, CodePointSet>> = {
  d: DIGITS,
  D: complement(DIGITS),
  w: WORD,
  W: complement(WORD),
  s: SPACE,
  S: complement(SPACE),
};

/**
 * Reads a regular expression of ECMAScript with the flag u (https://tc39.es/ecma262/#sec-patterns). Beyond it, a punctuation
 * mark may be escaped without need, and { } ] may stand for themselves: without the flag both mean the same.
 *
 * @throws PatternError for wrong syntax, and for back-references, word boundaries and look-behind
 */
export function parsePattern(source: string): Pattern {
  return new PatternParser(source).parse();
}

class PatternParser {
  #at = 0;
  #depth = 0;

  constructor(readonly source: string) {}

  parse(): Pattern {
    const pattern = this.#choice();
    if (this.#at < this.source.length) this.#wrong('closes a group that was never opened', ')');
    return pattern;
  }

  #wrong(what: string, construct: string, offset = this.#at): never {
    throw new PatternError(offset, construct, `${JSON.stringify(construct)} ${what}`, true);
  }

  #unsupported(construct: string, why: string, offset = this.#at): never {
    throw new PatternError(offset, construct, `${construct} ${why}`);
  }

  #choice(): Pattern {
    if (++this.#depth > CONSTRAINT_LIMITS.nesting) this.#unsupported('group', 'lies too deep in others');
    const options = [this.#sequence()];
    while (this.#take('|')) options.push(this.#sequence());
    this.#depth--;
    return options.length === 1 ? options[0]! : { kind: 'choice', options };
  }

  #sequence(): Pattern {
    const parts: Pattern[] = [];
    while (this.#at < this.source.length && !'|)'.includes(this.source[this.#at]!)) parts.push(this.#quantified());
    return parts.length === 1 ? parts[0]! : { kind: 'sequence', parts };
  }

  #quantified(): Pattern {
    const from = this.#at;
    const what = this.#atom();
    const bounds = this.#quantifier();
    if (bounds === undefined) return what;
    // A lazy quantifier has the same language.
    this.#take('?');
    const again = this.#at;
    if (this.#quantifier() !== undefined)
      this.#wrong('follows a quantifier', this.source.slice(again, this.#at), again);
    if (what.kind === 'start' || what.kind === 'end' || what.kind === 'lookahead') {
      this.#wrong('cannot be repeated', this.source.slice(from, this.#at), from);
    }
    const [min, max] = bounds;
    if (max < min) this.#wrong('is a range out of order', this.source.slice(from, this.#at), from);
    if (Math.max(min, Number.isFinite(max) ? max : 0) > CONSTRAINT_LIMITS.repetitions) {
      this.#unsupported('quantifier', `counts beyond ${CONSTRAINT_LIMITS.repetitions}`, from);
    }
    return { kind: 'repeat', what, min, max };
  }

  #quantifier(): [number, number] | undefined {
    if (this.#take('*')) return [0, Number.POSITIVE_INFINITY];
    if (this.#take('+')) return [1, Number.POSITIVE_INFINITY];
    if (this.#take('?')) return [0, 1];
    const counted = /^\{(\d+)(,?)(\d*)\}/.exec(this.source.slice(this.#at, this.#at + 40));
    if (counted === null) return undefined;
    this.#at += counted[0].length;
    const min = Number(counted[1]);
    if (counted[2] === '') return counted[3] === '' ? [min, min] : undefined;
    return [min, counted[3] === '' ? Number.POSITIVE_INFINITY : Number(counted[3])];
  }

  #atom(): Pattern {
    const character = this.#next();
    if (character === '^') return { kind: 'start' };
    if (character === '$') return { kind: 'end' };
    if (character === '.') return { kind: 'set', set: complement(LINE_TERMINATORS) };
    if (character === '(') return this.#group();
    if (character === '[') return { kind: 'set', set: this.#class() };
    if (character === '\\') return { kind: 'set', set: this.#escape(false) };
    if ('*+?'.includes(character)) this.#wrong('has nothing to repeat', character, this.#at - 1);
    return { kind: 'set', set: only(character) };
  }

  #group(): Pattern {
    const from = this.#at - 1;
    const wrap = (what: Pattern): Pattern => {
      if (!this.#take(')')) this.#wrong('is never closed', '(', from);
      return what;
    };
    if (!this.#take('?')) return wrap(this.#choice());
    if (this.#take(':')) return wrap(this.#choice());
    if (this.#take('=')) return wrap({ kind: 'lookahead', what: this.#choice(), negative: false });
    if (this.#take('!')) return wrap({ kind: 'lookahead', what: this.#choice(), negative: true });
    if (this.#take('<=') || this.#take('<!')) this.#unsupported('look-behind', 'is not supported', from);
    const name = /^<[\p{ID_Start}$_][\p{ID_Continue}$]*>/u.exec(this.source.slice(this.#at, this.#at + 200));
    if (name === null) this.#unsupported('flags of a group', 'are not supported', from);
    this.#at += name[0].length;
    return wrap(this.#choice());
  }

  #class(): CodePointSet {
    const from = this.#at - 1;
    const isNegated = this.#take('^');
    if (this.source.startsWith('[:', this.#at))
      this.#unsupported('POSIX class', 'is not supported; write its characters');
    const sets: CodePointSet[] = [];
    while (!this.#take(']')) {
      if (this.#at >= this.source.length) this.#wrong('is never closed', '[', from);
      const low = this.#classAtom();
      const isRange = this.source[this.#at] === '-' && ![']', undefined].includes(this.source[this.#at + 1]);
      if (!isRange) {
        sets.push(low);
        continue;
      }
      this.#at++;
      const high = this.#classAtom();
      const [first, last] = [low[0], high[0]];
      const isSingle = (set: CodePointSet) => set.length === 2 && set[0] === set[1];
      // Without the flag u, [\w-.] is \w, - and a point.
      if (!isSingle(low) || !isSingle(high)) sets.push(low, only('-'), high);
      else if (last! < first!) this.#wrong('has a range out of order', '[', from);
      else sets.push(codePoints([first!, last!]));
    }
    // One long list, merged once: a class of thousands of ranges stays cheap.
    const set = unionOf(sets);
    return isNegated ? complement(set) : set;
  }

  #classAtom(): CodePointSet {
    const character = this.#next();
    return character === '\\' ? this.#escape(true) : only(character);
  }

  #escape(isInClass: boolean): CodePointSet {
    const from = this.#at - 1;
    const character = this.#next();
    const one = (codePoint: number): CodePointSet => {
      if (codePoint > 0x10ffff) this.#wrong('is not a code point', this.source.slice(from, this.#at), from);
      const isSurrogate = codePoint >= 0xd800 && codePoint <= 0xdfff;
      if (isSurrogate) this.#unsupported('a surrogate alone', 'is in no text', from);
      return [codePoint, codePoint];
    };
    if (character in CLASSES) return CLASSES[character]!;
    if (character in CONTROLS) return one(CONTROLS[character]!);
    if (character === '0' && !/\d/.test(this.source[this.#at] ?? '')) return one(0);
    if (/[0-9]/.test(character)) this.#unsupported('back-reference', 'is not supported', from);
    if (character === 'k') this.#unsupported('back-reference', 'is not supported', from);
    if (character === 'b' && isInClass) return one(8);
    if (character === 'b' || character === 'B') this.#unsupported('word boundary', 'is not supported', from);
    if (character === 'p' || character === 'P') return this.#property(character === 'P', from);
    if (character === 'x') return one(Number.parseInt(this.#digits(/^[0-9a-fA-F]{2}/, 'x', from), 16));
    if (character === 'c') return one(this.#digits(/^[A-Za-z]/, 'c', from).codePointAt(0)! % 32);
    if (character === 'u') return one(this.#unicodeEscape(from));
    if (/[A-Za-z]/.test(character)) this.#wrong('is not an escape of ECMAScript', `\\${character}`, from);
    return only(character);
  }

  #unicodeEscape(from: number): number {
    const braced = /^\{([0-9a-fA-F]{1,6})\}/.exec(this.source.slice(this.#at, this.#at + 10));
    if (braced !== null) {
      this.#at += braced[0].length;
      return Number.parseInt(braced[1]!, 16);
    }
    const unit = Number.parseInt(this.#digits(/^[0-9a-fA-F]{4}/, 'u', from), 16);
    const low = /^\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(this.source.slice(this.#at, this.#at + 6));
    if (unit < 0xd800 || unit > 0xdbff || low === null) return unit;
    this.#at += 6;
    return 0x10000 + ((unit - 0xd800) << 10) + (Number.parseInt(low[1]!, 16) - 0xdc00);
  }

  #property(isNegated: boolean, from: number): CodePointSet {
    const name = this.#digits(/^\{[A-Za-z0-9_=]{1,60}\}/, isNegated ? 'P' : 'p', from).slice(1, -1);
    const set = unicodeProperty(name);
    if (set === undefined) this.#wrong('is not a property that ECMAScript knows', name, from);
    return isNegated ? complement(set) : set;
  }

  #digits(form: RegExp, letter: string, from: number): string {
    const found = form.exec(this.source.slice(this.#at, this.#at + 64));
    if (found === null) this.#wrong('is cut short', `\\${letter}`, from);
    this.#at += found[0].length;
    return found[0];
  }

  #take(text: string): boolean {
    if (!this.source.startsWith(text, this.#at)) return false;
    this.#at += text.length;
    return true;
  }

  /** The next character, a whole code point. */
  #next(): string {
    const codePoint = this.source.codePointAt(this.#at);
    if (codePoint === undefined) this.#wrong('ends too early', '\\', this.#at - 1);
    if (codePoint >= 0xd800 && codePoint <= 0xdfff) this.#unsupported('a surrogate alone', 'is in no text');
    const character = String.fromCodePoint(codePoint);
    this.#at += character.length;
    return character;
  }
}
