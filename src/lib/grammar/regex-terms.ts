import type { Budget } from './budget.js';
import { type CodePointSet, EVERYTHING, unionOf } from './code-points.js';
import { type Pattern, PatternError } from './regex-syntax.js';

/** Conditions under which a term may match nothing, as bits: in the text, at its start, at its end, at both. */
const IN_TEXT = 1;
const AT_START = 2;
const AT_END = 4;
const AT_BOTH = 8;
const ALWAYS = IN_TEXT | AT_START | AT_END | AT_BOTH;
const MOST = Number.POSITIVE_INFINITY;

/** Work that a term takes, and more than all that the limit of work allows. */
const TERM_WORK = 10;
const MOST_TERMS = 2 ** 24;

/** A regular expression. Equal ones of a table are one object; sequences lean to the right. */
export type Term = {
  readonly id: number;
  /** Conditions under which it matches the empty text. */
  readonly empty: number;
  /** True if a ^ is in it. */
  readonly hasStart: boolean;
} & (
  | { readonly kind: 'nothing' | 'empty' | 'start' | 'end' }
  | { readonly kind: 'set'; readonly set: CodePointSet }
  | { readonly kind: 'sequence'; readonly first: Term; readonly second: Term }
  | { readonly kind: 'choice'; readonly options: readonly Term[] }
  | { readonly kind: 'repeat'; readonly what: Term; readonly min: number; readonly max: number }
);

/** Characters that a term begins with, and the term that must match behind them. */
export interface Follower {
  readonly set: CodePointSet;
  readonly rest: Term;
}

/** The regular expressions of one constraint, and their partial derivatives (Antimirov, 1996). */
export class RegexTerms {
  readonly #known = new Map<string, Term>();
  /** By the numbers of both parts, as one. */
  readonly #sequences = new Map<number, Term>();
  #count = 0;
  readonly #sets = new Map<CodePointSet, Term>();
  readonly #characters = new Map<number, Term>();
  readonly #texts = new Map<string, Term>();
  readonly nothing: Term;
  readonly empty: Term;
  readonly anyCharacter: Term;
  /** Any text. */
  readonly anything: Term;

  constructor(readonly work: Budget) {
    this.nothing = this.#made('nothing', { kind: 'nothing', empty: 0, hasStart: false });
    this.empty = this.#made('empty', { kind: 'empty', empty: ALWAYS, hasStart: false });
    this.anyCharacter = this.set(EVERYTHING);
    this.anything = this.repeat(this.anyCharacter, 0, MOST);
  }

  /** @throws PatternError for look-ahead, which is no term */
  ofPattern(pattern: Pattern): Term {
    switch (pattern.kind) {
      case 'set':
        return this.set(pattern.set);
      case 'sequence':
        return this.sequenceOf(pattern.parts.map((part) => this.ofPattern(part)));
      case 'choice':
        return this.choice(pattern.options.map((option) => this.ofPattern(option)));
      case 'repeat':
        return this.repeat(this.ofPattern(pattern.what), pattern.min, pattern.max);
      case 'start':
        return this.#made('start', { kind: 'start', empty: AT_START | AT_BOTH, hasStart: true });
      case 'end':
        return this.#made('end', { kind: 'end', empty: AT_END | AT_BOTH, hasStart: false });
      case 'lookahead':
        throw new PatternError(0, 'look-ahead', 'look-ahead is supported only at the beginning of a pattern');
    }
  }

  text(value: string): Term {
    let term = this.#texts.get(value);
    if (term === undefined) {
      term = this.sequenceOf(Array.from(value, (character) => this.#character(character.codePointAt(0)!)));
      this.#texts.set(value, term);
    }
    return term;
  }

  set(set: CodePointSet): Term {
    if (set.length === 0) return this.nothing;
    let term = this.#sets.get(set);
    if (term === undefined) {
      term = this.#made(`[${set.join()}`, { kind: 'set', set, empty: 0, hasStart: false });
      this.#sets.set(set, term);
    }
    return term;
  }

  #character(codePoint: number): Term {
    let term = this.#characters.get(codePoint);
    if (term === undefined) {
      term = this.set([codePoint, codePoint]);
      this.#characters.set(codePoint, term);
    }
    return term;
  }

  sequenceOf(parts: readonly Term[]): Term {
    return parts.reduceRight((rest, part) => this.sequence(part, rest), this.empty);
  }

  sequence(first: Term, second: Term): Term {
    if (first === this.nothing || second === this.nothing) return this.nothing;
    if (first === this.empty) return second;
    if (second === this.empty) return first;
    const parts: Term[] = [];
    let last = first;
    for (; last.kind === 'sequence'; last = last.second) parts.push(last.first);
    parts.push(last);
    return parts.reduceRight((rest, part) => {
      if (isEndless(part) && (rest === part || (rest.kind === 'sequence' && rest.first === part))) return rest;
      const key = part.id * MOST_TERMS + rest.id;
      let made = this.#sequences.get(key);
      if (made === undefined) {
        const flags = { empty: part.empty & rest.empty, hasStart: part.hasStart || rest.hasStart };
        made = this.#add({ kind: 'sequence', first: part, second: rest, ...flags });
        this.#sequences.set(key, made);
      }
      return made;
    }, second);
  }

  choice(given: readonly Term[]): Term {
    const options = this.alternatives(given);
    if (options.length === 0) return this.nothing;
    if (options.length === 1) return options[0]!;
    return this.#made(`|${options.map(({ id }) => id).join()}`, {
      kind: 'choice',
      options,
      empty: options.reduce((all, { empty }) => all | empty, 0),
      hasStart: options.some(({ hasStart }) => hasStart),
    });
  }

  /** The same terms without choices, each once and by id; single characters as one set. */
  alternatives(given: readonly Term[]): readonly Term[] {
    if (given.length === 1 && given[0]!.kind !== 'choice') return given[0] === this.nothing ? [] : given;
    const found = new Set<Term>();
    const sets: CodePointSet[] = [];
    const add = (term: Term): void => {
      if (term.kind === 'choice') term.options.forEach(add);
      else if (term.kind === 'set') sets.push(term.set);
      else if (term.kind !== 'nothing') found.add(term);
    };
    given.forEach(add);
    if (sets.length > 0) found.add(this.set(unionOf(sets)));
    if (found.has(this.anything)) return [this.anything];
    // A text that may begin anywhere may begin here.
    for (const term of found) {
      if (term.kind !== 'sequence' || term.first !== this.anything) continue;
      const { second } = term;
      for (const here of second.kind === 'choice' ? second.options : [second]) found.delete(here);
    }
    return [...found].sort((a, b) => a.id - b.id);
  }

  repeat(what: Term, min: number, max: number): Term {
    if (max === 0 || what === this.empty) return this.empty;
    if (isEndless(what)) return what;
    if (what === this.nothing) return min === 0 ? this.empty : this.nothing;
    // Repetitions that match nothing count as well.
    const least = (what.empty & IN_TEXT) !== 0 ? 0 : min;
    if (least === 1 && max === 1) return what;
    const empty = least === 0 ? ALWAYS : what.empty;
    return this.#made(`*${what.id},${least},${max}`, {
      kind: 'repeat',
      what,
      min: least,
      max,
      empty,
      hasStart: what.hasStart,
    });
  }

  /** The same behind the first character of a text, where ^ matches no more. */
  behindStart(term: Term): Term {
    if (!term.hasStart) return term;
    switch (term.kind) {
      case 'sequence': {
        const parts: Term[] = [];
        let rest: Term = term;
        for (; rest.kind === 'sequence' && rest.hasStart; rest = rest.second) parts.push(this.behindStart(rest.first));
        return this.sequence(this.sequenceOf(parts), this.behindStart(rest));
      }
      case 'choice':
        return this.choice(term.options.map((option) => this.behindStart(option)));
      case 'repeat':
        return this.repeat(this.behindStart(term.what), term.min, term.max);
      default:
        return this.nothing;
    }
  }

  /** True if a text may end at the term. */
  mayEnd({ empty }: Term, isStart: boolean): boolean {
    return (empty & (isStart ? AT_BOTH : AT_END)) !== 0;
  }

  /** Adds what a term's texts begin with, and what follows each: `rest` behind the term. */
  follow(from: Term, behind: Term, isStart: boolean, to: Follower[]): void {
    const passes = (term: Term) => (term.empty & (isStart ? AT_START : IN_TEXT)) !== 0;
    let term = from;
    let rest = behind;
    for (;;) {
      this.work.spend(1);
      switch (term.kind) {
        case 'set':
          to.push({ set: term.set, rest });
          return;
        case 'sequence':
          this.follow(term.first, this.sequence(this.behindStart(term.second), rest), isStart, to);
          if (!passes(term.first)) return;
          term = term.second;
          break;
        case 'choice':
          for (const option of term.options) this.follow(option, rest, isStart, to);
          return;
        case 'repeat': {
          // Those before may have matched nothing.
          const min = passes(term.what) ? 0 : Math.max(term.min - 1, 0);
          const more = this.repeat(this.behindStart(term.what), min, term.max - 1);
          rest = this.sequence(more, rest);
          term = term.what;
          break;
        }
        default:
          return;
      }
    }
  }

  #made(key: string, content: Content): Term {
    let term = this.#known.get(key);
    if (term === undefined) {
      term = this.#add(content);
      this.#known.set(key, term);
    }
    return term;
  }

  #add(content: Content): Term {
    this.work.spend(TERM_WORK);
    return { id: this.#count++, ...content } as Term;
  }
}

const isEndless = (term: Term): boolean => term.kind === 'repeat' && term.min === 0 && term.max === MOST;

type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never;
type Content = WithoutId<Term>;
