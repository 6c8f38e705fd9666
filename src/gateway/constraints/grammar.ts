import type { Budget } from './budget.js';
import { ASCII, type CodePointSet, complement, intersection, NOT_ASCII, pairs } from './code-points.js';
import { CONSTRAINT_LIMITS } from './limits.js';
import { withSeparateAlternatives } from './separate-alternatives.js';
import { SPECIAL_TOKEN_BYTE } from './special-token-names.js';
import { utf8Sequences } from './utf8.js';

/** What a rule may produce. */
export type Expression =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'characters'; readonly set: CodePointSet }
  /** The special token of that name itself, which no text is. */
  | { readonly kind: 'special'; readonly name: string }
  | { readonly kind: 'rule'; readonly name: string }
  | { readonly kind: 'sequence'; readonly parts: readonly Expression[] }
  | { readonly kind: 'choice'; readonly options: readonly Expression[] }
  | { readonly kind: 'repeat'; readonly what: Expression; readonly min: number; readonly max: number };

export const NOTHING: Expression = { kind: 'text', text: '' };
/** Produces no text at all, not even the empty one. */
export const IMPOSSIBLE: Expression = { kind: 'choice', options: [] };

export const text = (value: string): Expression => ({ kind: 'text', text: value });
export const rule = (name: string): Expression => ({ kind: 'rule', name });
export const special = (name: string): Expression => ({ kind: 'special', name });
export const characters = (set: CodePointSet): Expression => ({ kind: 'characters', set });

export const sequence = (...parts: readonly Expression[]) => sequenceOf(parts);

/** The same of a list, which may be longer than a call has arguments. */
export function sequenceOf(parts: readonly Expression[]): Expression {
  const flat = parts
    .flatMap((part) => (part.kind === 'sequence' ? part.parts : [part]))
    .filter((part) => part !== NOTHING);
  if (flat.includes(IMPOSSIBLE)) return IMPOSSIBLE;
  return flat.length === 0 ? NOTHING : flat.length === 1 ? flat[0]! : { kind: 'sequence', parts: flat };
}

export const choice = (...options: readonly Expression[]) => choiceOf(options);

/** The same of a list. */
export function choiceOf(options: readonly Expression[]): Expression {
  const flat = options.flatMap((option) => (option.kind === 'choice' ? option.options : [option]));
  const distinct = [...new Set(flat)];
  return distinct.length === 0
    ? IMPOSSIBLE
    : distinct.length === 1
      ? distinct[0]!
      : { kind: 'choice', options: distinct };
}

export function repeat(what: Expression, min: number, max: number): Expression {
  if (max < min) return IMPOSSIBLE;
  if (max === 0) return NOTHING;
  if (what === IMPOSSIBLE) return min === 0 ? NOTHING : IMPOSSIBLE;
  return min === 1 && max === 1 ? what : { kind: 'repeat', what, min, max };
}

export const optional = (what: Expression) => repeat(what, 0, 1);

/** What stands around the texts of a constraint, such as the reasoning before them. */
export type Surroundings = (constrained: Expression, grammar: Grammar) => Expression;

/** The rules of one grammar, and its text. */
export class Grammar {
  readonly #rules = new Map<string, Expression>();
  readonly #names = new Map<string, string>();
  readonly #open: (() => void)[] = [];
  #made = 0;

  /** @param strings how strings of JSON are written: where a tag ends a value, no string may hold one */
  constructor(
    readonly work: Budget,
    readonly strings: 'plain' | 'without-angles' = 'plain',
  ) {}

  /**
   * A rule of this content, known by its key: it is made once. Its content is made later, by {@link makeRules}, so that
   * rules may refer to themselves and to others as deep as they please.
   */
  shared(key: string, stem: string, content: () => Expression): Expression {
    const known = this.#names.get(key);
    if (known !== undefined) return rule(known);
    const name = this.#free(stem);
    this.#names.set(key, name);
    this.#rules.set(name, IMPOSSIBLE);
    this.#open.push(() => this.#rules.set(name, content()));
    return rule(name);
  }

  /** A new rule of this content. */
  add(stem: string, content: Expression): Expression {
    const name = this.#free(stem);
    this.#rules.set(name, content);
    return rule(name);
  }

  /** A name for keys of {@link shared} that nobody else has. */
  fresh(): string {
    return `#${++this.#made}`;
  }

  /** A rule under a name of its own, which stays; others that refer to it may come first. */
  set(name: string, content: Expression): void {
    this.#rules.set(name, content);
  }

  #free(stem: string): string {
    this.work.spend(100);
    if (this.#rules.size >= CONSTRAINT_LIMITS.rules) {
      this.work.exceed(`its grammar has more than ${CONSTRAINT_LIMITS.rules} rules; ask for less at once`);
    }
    return `${stem}-${this.#rules.size}`;
  }

  /** Makes what {@link shared} rules have put off; what refuses it is thrown here. */
  makeRules(): void {
    for (let make = this.#open.pop(); make !== undefined; make = this.#open.pop()) make();
  }

  /**
   * The grammar as the library reads it (its dialect: https://www.w3.org/TR/xml/#sec-notation with {m,n}), without what
   * cannot be reached and what can never be finished: a model must not be led there.
   *
   * @returns undefined when nothing at all fits
   */
  toText(root: Expression): string | undefined {
    this.makeRules();
    this.#rules.set('root', root);
    const finishable = this.#finishable();
    if (!finishable.has('root')) return undefined;
    const lines: string[] = [];
    let length = 0;
    let elements = 0;
    const reached = new Set(['root']);
    const alternative = (content: Expression): Expression => {
      const made = this.add('alternative', content) as Expression & { readonly kind: 'rule' };
      finishable.add(made.name);
      return made;
    };
    for (const name of reached) {
      const content = withSeparateAlternatives(pruned(this.#rules.get(name)!, finishable), alternative);
      for (const other of rulesIn(content)) reached.add(other);
      elements += unrolled(content);
      if (elements > CONSTRAINT_LIMITS.elements) {
        this.work.exceed(`with its repetitions it has more than ${CONSTRAINT_LIMITS.elements} elements; count less`);
      }
      const line = `${name} ::= ${printed(content, false)}`;
      length += line.length + 1;
      if (length > CONSTRAINT_LIMITS.grammarCharacters) {
        this.work.exceed(
          `its grammar has more than ${CONSTRAINT_LIMITS.grammarCharacters} characters; ask for less at once`,
        );
      }
      lines.push(line);
    }
    return `${lines.join('\n')}\n`;
  }

  /** The rules that produce at least one text: the least fixed point. */
  #finishable(): Set<string> {
    const users = new Map<string, string[]>();
    for (const [name, content] of this.#rules) {
      for (const used of new Set(rulesIn(content))) {
        const known = users.get(used);
        if (known === undefined) users.set(used, [name]);
        else known.push(name);
      }
    }
    const finishable = new Set<string>();
    const open = [...this.#rules.keys()];
    for (let name = open.pop(); name !== undefined; name = open.pop()) {
      this.work.spend(1);
      if (finishable.has(name) || !canFinish(this.#rules.get(name)!, finishable)) continue;
      finishable.add(name);
      open.push(...(users.get(name) ?? []));
    }
    return finishable;
  }
}

function canFinish(expression: Expression, finishable: ReadonlySet<string>): boolean {
  switch (expression.kind) {
    case 'text':
    case 'special':
      return true;
    case 'characters':
      return expression.set.length > 0;
    case 'rule':
      return finishable.has(expression.name);
    case 'sequence':
      return expression.parts.every((part) => canFinish(part, finishable));
    case 'choice':
      return expression.options.some((option) => canFinish(option, finishable));
    case 'repeat':
      return expression.min === 0 || canFinish(expression.what, finishable);
  }
}

/** Without the alternatives that cannot be finished; the expression itself can be. */
function pruned(expression: Expression, finishable: ReadonlySet<string>): Expression {
  switch (expression.kind) {
    case 'sequence':
      return sequenceOf(expression.parts.map((part) => pruned(part, finishable)));
    case 'choice':
      return choiceOf(
        expression.options
          .filter((option) => canFinish(option, finishable))
          .map((option) => pruned(option, finishable)),
      );
    case 'repeat':
      if (!canFinish(expression.what, finishable)) return NOTHING;
      return repeat(pruned(expression.what, finishable), expression.min, expression.max);
    default:
      return expression;
  }
}

function rulesIn(expression: Expression): string[] {
  switch (expression.kind) {
    case 'rule':
      return [expression.name];
    case 'sequence':
      return expression.parts.flatMap(rulesIn);
    case 'choice':
      return expression.options.flatMap(rulesIn);
    case 'repeat':
      return rulesIn(expression.what);
    default:
      return [];
  }
}

/** How many elements it has once the library has written each counted repetition out. */
function unrolled(expression: Expression): number {
  switch (expression.kind) {
    case 'sequence':
      return expression.parts.reduce((sum, part) => sum + unrolled(part), 0);
    case 'choice':
      return expression.options.reduce((sum, option) => sum + unrolled(option), 1);
    case 'repeat':
      return unrolled(expression.what) * Math.max(Number.isFinite(expression.max) ? expression.max : expression.min, 1);
    default:
      return 1;
  }
}

/** `isTight`: it stands where a choice or a sequence must be put in parentheses. */
function printed(expression: Expression, isTight: boolean): string {
  switch (expression.kind) {
    case 'text':
      return `"${[...expression.text].map(quoted).join('')}"`;
    case 'characters':
      return classes(expression.set, isTight);
    case 'special': {
      const mark = byteClass([SPECIAL_TOKEN_BYTE, SPECIAL_TOKEN_BYTE]);
      const parts = `${mark} ${printed(text(expression.name), true)} ${mark}`;
      return isTight ? `(${parts})` : parts;
    }
    case 'rule':
      return expression.name;
    case 'sequence': {
      const parts = expression.parts
        .map((part) => printed(part, part.kind === 'choice' || part.kind === 'characters'))
        .join(' ');
      return isTight ? `(${parts})` : parts;
    }
    case 'choice': {
      const options = expression.options.map((option) => printed(option, false)).join(' | ');
      return isTight ? `(${options})` : options;
    }
    case 'repeat': {
      const { what, min, max } = expression;
      const isAtom = what.kind === 'characters' || what.kind === 'rule';
      return `${isAtom ? printed(what, true) : `(${printed(what, false)})`}${quantifier(min, max)}`;
    }
  }
}

/**
 * A set of characters. The library's classes read bytes, but for negated ones, which leave out ASCII and read all else as whole
 * characters: so a set that has all that is not ASCII is a negated class, and any other is written as the bytes of its UTF-8.
 */
function classes(set: CodePointSet, isTight: boolean): string {
  const ascii = intersection(set, ASCII);
  const high = intersection(set, NOT_ASCII);
  const options: string[] = [];
  if (high.join() === NOT_ASCII.join()) {
    const excluded = intersection(complement(set), ASCII);
    if (excluded.length > 0) return `[^${pairs(excluded).map(range).join('')}]`;
    options.push('[^\\u0000]', '[\\u0000]');
  } else {
    if (ascii.length > 0) options.push(`[${pairs(ascii).map(range).join('')}]`);
    for (const bytes of utf8Sequences(high)) options.push(bytes.map(byteClass).join(' '));
  }
  const isOne = options.length === 1 && !options[0]!.includes('] [');
  return isTight && !isOne ? `(${options.join(' | ')})` : options.join(' | ');
}

const range = ([first, last]: readonly [number, number]) =>
  first === last ? escaped(first) : `${escaped(first)}-${escaped(last)}`;

/** One byte is written twice: the library takes a class of a single member for a text, and would encode it again. */
const byteClass = ([first, last]: readonly [number, number]) =>
  first === last ? `[${escaped(first)}${escaped(first)}]` : `[${range([first, last])}]`;

function quantifier(min: number, max: number): string {
  if (max === Number.POSITIVE_INFINITY) return min === 0 ? '*' : min === 1 ? '+' : `{${min},}`;
  return min === 0 && max === 1 ? '?' : min === max ? `{${min}}` : `{${min},${max}}`;
}

/** Letters, digits and harmless marks as themselves, all else by number; \x would swallow the hexadecimal digits after it. */
function escaped(codePoint: number): string {
  const character = String.fromCodePoint(codePoint);
  if (codePoint < 0x7f && /[A-Za-z0-9 _.,:;<>=@!#%&+*/(){}|~?$']/.test(character)) return character;
  const hex = codePoint.toString(16);
  return codePoint < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** Inside of quotation marks. */
function quoted(character: string): string {
  return character === '"' || character === '\\' ? `\\${character}` : escaped(character.codePointAt(0)!);
}
