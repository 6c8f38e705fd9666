import { Automata } from './automata.js';
import type { Budget } from './budget.js';
import type { CodePointSet } from './code-points.js';
import { CONSTRAINT_LIMITS } from './limits.js';

/** Expression of a rule. */
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
export const characters = (set: CodePointSet): Expression =>
  set.length === 0 ? IMPOSSIBLE : { kind: 'characters', set };

export const sequence = (...parts: readonly Expression[]) => sequenceOf(parts);

/** The same of a list, which may be longer than a call has arguments. */
export function sequenceOf(parts: readonly Expression[]): Expression {
  const flat: Expression[] = [];
  for (const part of parts) {
    if (part === IMPOSSIBLE) return IMPOSSIBLE;
    if (part.kind === 'sequence') for (const inner of part.parts) flat.push(inner);
    else if (part !== NOTHING) flat.push(part);
  }
  return flat.length === 0 ? NOTHING : flat.length === 1 ? flat[0]! : { kind: 'sequence', parts: flat };
}

export const choice = (...options: readonly Expression[]) => choiceOf(options);

/** The same of a list. */
export function choiceOf(options: readonly Expression[]): Expression {
  const distinct = new Set<Expression>();
  for (const option of options) {
    if (option.kind === 'choice') for (const inner of option.options) distinct.add(inner);
    else distinct.add(option);
  }
  if (distinct.size === 0) return IMPOSSIBLE;
  return distinct.size === 1 ? [...distinct][0]! : { kind: 'choice', options: [...distinct] };
}

export function repeat(what: Expression, min: number, max: number): Expression {
  if (max < min) return IMPOSSIBLE;
  if (max === 0) return NOTHING;
  if (what === IMPOSSIBLE) return min === 0 ? NOTHING : IMPOSSIBLE;
  return min === 1 && max === 1 ? what : { kind: 'repeat', what, min, max };
}

export const optional = (what: Expression) => repeat(what, 0, 1);

/** Rules by their names; the first is where texts begin. */
export type GrammarRules = ReadonlyMap<string, Expression>;

/** Grammar around the texts of a constraint, such as the reasoning before them. */
export type Surroundings = (constrained: Expression, grammar: Grammar) => Expression;

/** The rules of one grammar. */
export class Grammar {
  readonly #rules = new Map<string, Expression>();
  readonly #names = new Map<string, string>();
  readonly #open: (() => void)[] = [];
  #made = 0;
  readonly automata: Automata;

  /** @param strings how strings of JSON are written: where a tag ends a value, no string may hold one */
  constructor(
    readonly work: Budget,
    readonly strings: 'plain' | 'without-angles' = 'plain',
  ) {
    this.automata = new Automata(work);
  }

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
   * The rules, without what cannot be reached and what can never be finished: a model must not be led there.
   *
   * @returns undefined when nothing at all fits
   */
  rulesFrom(root: Expression): GrammarRules | undefined {
    this.makeRules();
    this.#rules.set('root', root);
    const finishable = this.#finishable();
    if (!finishable.has('root')) return undefined;
    const rules = new Map<string, Expression>();
    let size = 0;
    const reached = new Set(['root']);
    for (const name of reached) {
      const made = this.#rules.get(name)!;
      // Impossible parts of a rule are left out as it is made.
      const content = finishable.size === this.#rules.size ? made : pruned(made, finishable);
      eachRule(content, (other) => reached.add(other));
      size += sizeOf(content);
      if (size > CONSTRAINT_LIMITS.grammarSize) {
        this.work.exceed(`its grammar is larger than ${CONSTRAINT_LIMITS.grammarSize}; ask for less at once`);
      }
      rules.set(name, content);
    }
    return rules;
  }

  /** The rules that produce at least one text: the least fixed point. */
  #finishable(): Set<string> {
    const finishable = new Set<string>();
    let open = [...this.#rules.keys()];
    // Rules mostly come before those that they refer to: few are left behind two passes from the end.
    for (let pass = 0; pass < 2; pass++) {
      const left: string[] = [];
      for (let i = open.length - 1; i >= 0; i--) {
        const name = open[i]!;
        this.work.spend(1);
        if (canFinish(this.#rules.get(name)!, finishable)) finishable.add(name);
        else left.push(name);
      }
      open = left.reverse();
    }
    const users = new Map<string, string[]>();
    for (const name of open) {
      eachRule(this.#rules.get(name)!, (used) => {
        const known = users.get(used);
        if (known === undefined) users.set(used, [name]);
        else if (known.at(-1) !== name) known.push(name);
      });
    }
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
    case 'sequence': {
      const parts = expression.parts.map((part) => pruned(part, finishable));
      return parts.every((part, index) => part === expression.parts[index]) ? expression : sequenceOf(parts);
    }
    case 'choice': {
      const options = expression.options
        .filter((option) => canFinish(option, finishable))
        .map((option) => pruned(option, finishable));
      const isSame =
        options.length === expression.options.length &&
        options.every((option, index) => option === expression.options[index]);
      return isSame ? expression : choiceOf(options);
    }
    case 'repeat': {
      if (!canFinish(expression.what, finishable)) return NOTHING;
      const what = pruned(expression.what, finishable);
      return what === expression.what ? expression : repeat(what, expression.min, expression.max);
    }
    default:
      return expression;
  }
}

/** Visits the name of each rule that an expression refers to, as often as it does. */
function eachRule(expression: Expression, visit: (name: string) => void): void {
  switch (expression.kind) {
    case 'rule':
      visit(expression.name);
      break;
    case 'sequence':
      for (const part of expression.parts) eachRule(part, visit);
      break;
    case 'choice':
      for (const option of expression.options) eachRule(option, visit);
      break;
    case 'repeat':
      eachRule(expression.what, visit);
      break;
  }
}

/** Its parts, the characters of its texts, and the ranges of its sets. */
function sizeOf(expression: Expression): number {
  switch (expression.kind) {
    case 'text':
      return 1 + expression.text.length;
    case 'characters':
      return 1 + expression.set.length / 2;
    case 'sequence':
      return expression.parts.reduce((sum, part) => sum + sizeOf(part), 1);
    case 'choice':
      return expression.options.reduce((sum, option) => sum + sizeOf(option), 1);
    case 'repeat':
      return 1 + sizeOf(expression.what);
    default:
      return 1;
  }
}
