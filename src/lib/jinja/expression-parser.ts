import type { CallArguments, Comparison, Expression, FilterStep, Operator } from './ast.js';
import { fail } from './errors.js';
import { type Token, type TokenKind, tokenize } from './lexer.js';
import { Float, integer, NONE, type None } from './values.js';

/** Deeper nesting is an attack on the stack. */
const MAX_DEPTH = 200;

const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=']);
const CONSTANTS: ReadonlyMap<string, boolean | None> = new Map<string, boolean | None>([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', NONE],
  ['None', NONE],
]);

/** Expressions, by the precedence of Jinja's own parser: `~` binds closer than `+`, a filter closer than a sign. */
export class ExpressionParser {
  private readonly tokens: readonly Token[];
  private at = 0;
  private depth = 0;

  constructor(source: string) {
    this.tokens = tokenize(source);
  }

  protected get current(): Token {
    return this.tokens[this.at]!;
  }

  protected next(): Token {
    const token = this.current;
    if (token.kind !== 'end') this.at++;
    return token;
  }

  protected is(kind: TokenKind, text?: string, ahead = 0): boolean {
    const token = this.tokens[Math.min(this.at + ahead, this.tokens.length - 1)]!;
    return token.kind === kind && (text === undefined || token.text === text);
  }

  protected skip(kind: TokenKind, text: string): boolean {
    const found = this.is(kind, text);
    if (found) this.next();
    return found;
  }

  protected expect(kind: TokenKind, text?: string): Token {
    if (this.is(kind, text)) return this.next();
    return this.fail(`expected ${text === undefined ? kind : `"${text}"`}, found ${describe(this.current)}`);
  }

  protected fail(message: string): never {
    return fail(`line ${this.current.line}: ${message}`);
  }

  /** @throws TemplateError when the template nests deeper than any real one */
  protected nested<T>(parse: () => T): T {
    if (++this.depth > MAX_DEPTH) this.fail(`nested deeper than ${MAX_DEPTH} levels`);
    const result = parse();
    this.depth--;
    return result;
  }

  protected parseExpression(withChoice = true): Expression {
    return this.nested(() => (withChoice ? this.parseChoice() : this.parseOr()));
  }

  /** One expression, or several with commas between, which are a tuple. */
  protected parseTuple(options: { readonly withChoice?: boolean; readonly isEnd?: () => boolean } = {}): Expression {
    const items: Expression[] = [];
    let isTuple = false;
    const isEnd = () =>
      this.is('variableEnd') || this.is('blockEnd') || this.is('operator', ')') || options.isEnd?.() === true;
    while (!isEnd()) {
      items.push(this.parseExpression(options.withChoice ?? true));
      if (!this.skip('operator', ',')) break;
      isTuple = true;
    }
    if (!isTuple && items.length === 1) return items[0]!;
    if (items.length === 0) this.fail(`expected an expression, found ${describe(this.current)}`);
    return { kind: 'tuple', items };
  }

  protected parseCallArguments(): CallArguments {
    const positional: Expression[] = [];
    const named: [string, Expression][] = [];
    let [items, pairs]: (Expression | undefined)[] = [];
    this.expect('operator', '(');
    while (!this.is('operator', ')')) {
      if (pairs !== undefined) this.fail('an argument follows "**"');
      if (this.skip('operator', '**')) pairs = this.parseExpression();
      else if (this.skip('operator', '*')) {
        if (items !== undefined) this.fail('a call has two "*"');
        items = this.parseExpression();
      } else if (this.is('name') && this.is('operator', '=', 1)) {
        const name = this.next().text;
        this.next();
        named.push([name, this.parseExpression()]);
      } else {
        if (named.length > 0 || items !== undefined) this.fail('a positional argument follows a named one');
        positional.push(this.parseExpression());
      }
      if (!this.is('operator', ')')) this.expect('operator', ',');
    }
    this.next();
    return { positional, named, items, pairs };
  }

  /** `name(args) | name(args) …`, from the first name on. */
  protected parseFilterSteps(): FilterStep[] {
    const steps: FilterStep[] = [];
    do steps.push({ name: this.parseDottedName(), args: this.parseOptionalArguments() });
    while (this.skip('operator', '|'));
    return steps;
  }

  private parseChoice(): Expression {
    let then = this.parseOr();
    while (this.skip('name', 'if')) {
      const test = this.parseOr();
      const otherwise = this.skip('name', 'else') ? this.nested(() => this.parseChoice()) : undefined;
      then = { kind: 'choice', test, then, otherwise };
    }
    return then;
  }

  private parseOr(): Expression {
    let left = this.parseAnd();
    while (this.skip('name', 'or')) left = { kind: 'or', left, right: this.parseAnd() };
    return left;
  }

  private parseAnd(): Expression {
    let left = this.parseNot();
    while (this.skip('name', 'and')) left = { kind: 'and', left, right: this.parseNot() };
    return left;
  }

  private parseNot(): Expression {
    if (!this.skip('name', 'not')) return this.parseCompare();
    return { kind: 'unary', operator: 'not', operand: this.nested(() => this.parseNot()) };
  }

  private parseCompare(): Expression {
    const first = this.parseSum();
    const rest: { operator: Comparison; operand: Expression }[] = [];
    for (;;) {
      let operator: Comparison;
      if (this.current.kind === 'operator' && COMPARISONS.has(this.current.text)) {
        operator = this.next().text as Comparison;
      } else if (this.skip('name', 'in')) operator = 'in';
      else if (this.is('name', 'not') && this.is('name', 'in', 1)) {
        this.next();
        this.next();
        operator = 'not in';
      } else break;
      rest.push({ operator, operand: this.parseSum() });
    }
    return rest.length === 0 ? first : { kind: 'compare', first, rest };
  }

  private parseSum(): Expression {
    return this.parseLeft(['+', '-'], () => this.parseConcat());
  }

  private parseConcat(): Expression {
    const items = [this.parseProduct()];
    while (this.skip('operator', '~')) items.push(this.parseProduct());
    return items.length === 1 ? items[0]! : { kind: 'concat', items };
  }

  private parseProduct(): Expression {
    return this.parseLeft(['*', '/', '//', '%'], () => this.parseLeft(['**'], () => this.parseUnary(true)));
  }

  private parseLeft(operators: readonly Operator[], parseOperand: () => Expression): Expression {
    let left = parseOperand();
    while (this.current.kind === 'operator' && operators.includes(this.current.text as Operator)) {
      const operator = this.next().text as Operator;
      left = { kind: 'binary', operator, left, right: parseOperand() };
    }
    return left;
  }

  private parseUnary(withFilters: boolean): Expression {
    let node: Expression;
    if (this.is('operator', '-') || this.is('operator', '+')) {
      const operator = this.next().text as '-' | '+';
      node = { kind: 'unary', operator, operand: this.nested(() => this.parseUnary(false)) };
    } else node = this.parsePrimary();
    node = this.parsePostfix(node);
    return withFilters ? this.parseFiltersAndTests(node) : node;
  }

  private parsePrimary(): Expression {
    const token = this.next();
    switch (token.kind) {
      case 'name': {
        const value = CONSTANTS.get(token.text);
        return value === undefined ? { kind: 'name', name: token.text } : { kind: 'constant', value };
      }
      case 'string': {
        let value = token.text;
        while (this.is('string')) value += this.next().text;
        return { kind: 'constant', value };
      }
      case 'integer':
        return { kind: 'constant', value: integer(BigInt(token.text.replaceAll('_', '').replace(/^0+(?=\d)/, ''))) };
      case 'float':
        return { kind: 'constant', value: new Float(Number(token.text.replaceAll('_', ''))) };
      case 'operator':
        if (token.text === '(') return this.parseParentheses();
        if (token.text === '[') return { kind: 'list', items: this.parseItems(']') };
        if (token.text === '{') return this.parseDict();
        break;
      default:
    }
    return fail(`line ${token.line}: unexpected ${describe(token)}`);
  }

  private parseParentheses(): Expression {
    if (this.skip('operator', ')')) return { kind: 'tuple', items: [] };
    const inner = this.parseTuple();
    this.expect('operator', ')');
    return inner;
  }

  private parseItems(end: string): Expression[] {
    const items: Expression[] = [];
    while (!this.skip('operator', end)) {
      if (items.length > 0) this.expect('operator', ',');
      if (this.skip('operator', end)) break;
      items.push(this.parseExpression());
    }
    return items;
  }

  private parseDict(): Expression {
    const entries: [Expression, Expression][] = [];
    while (!this.skip('operator', '}')) {
      if (entries.length > 0) this.expect('operator', ',');
      if (this.skip('operator', '}')) break;
      const key = this.parseExpression();
      this.expect('operator', ':');
      entries.push([key, this.parseExpression()]);
    }
    return { kind: 'dict', entries };
  }

  private parsePostfix(start: Expression): Expression {
    let node = start;
    for (;;) {
      if (this.skip('operator', '.')) node = this.parseAttribute(node);
      else if (this.skip('operator', '[')) node = this.parseSubscript(node);
      else if (this.is('operator', '(')) node = { kind: 'call', callee: node, args: this.parseCallArguments() };
      else return node;
    }
  }

  private parseAttribute(target: Expression): Expression {
    if (this.is('integer')) {
      return { kind: 'item', target, index: { kind: 'constant', value: Number(this.next().text) } };
    }
    return { kind: 'attribute', target, name: this.expect('name').text };
  }

  private parseSubscript(target: Expression): Expression {
    const part = () => (this.is('operator', ':') || this.is('operator', ']') ? undefined : this.parseExpression());
    const start = part();
    let node: Expression;
    if (this.skip('operator', ':')) {
      const stop = part();
      const step = this.skip('operator', ':') ? part() : undefined;
      node = { kind: 'slice', target, start, stop, step };
    } else {
      if (start === undefined) this.fail('a subscript is empty');
      node = { kind: 'item', target, index: start };
    }
    this.expect('operator', ']');
    return node;
  }

  private parseFiltersAndTests(start: Expression): Expression {
    let node = start;
    for (;;) {
      if (this.skip('operator', '|')) {
        for (const { name, args } of this.parseFilterSteps()) node = { kind: 'filter', name, target: node, args };
      } else if (this.skip('name', 'is')) node = this.parseTest(node);
      else if (this.is('operator', '(')) node = { kind: 'call', callee: node, args: this.parseCallArguments() };
      else return node;
    }
  }

  private parseTest(target: Expression): Expression {
    const isNegated = this.skip('name', 'not');
    const name = this.parseDottedName();
    let args = this.parseOptionalArguments();
    if (args.positional.length === 0 && args.named.length === 0 && this.startsTestArgument()) {
      args = { positional: [this.parsePostfix(this.parsePrimary())], named: [] };
    }
    const test: Expression = { kind: 'test', name, target, args };
    return isNegated ? { kind: 'unary', operator: 'not', operand: test } : test;
  }

  /** `x is divisibleby 3`: an argument without brackets. */
  private startsTestArgument(): boolean {
    const { kind, text } = this.current;
    if (kind === 'name') {
      if (text === 'is') this.fail('tests cannot be chained');
      return !['else', 'or', 'and'].includes(text) && !['if', 'in', 'not', 'recursive'].includes(text);
    }
    if (kind === 'operator') return text === '[' || text === '{';
    return kind === 'string' || kind === 'integer' || kind === 'float';
  }

  private parseDottedName(): string {
    let name = this.expect('name').text;
    while (this.skip('operator', '.')) name += `.${this.expect('name').text}`;
    return name;
  }

  private parseOptionalArguments(): CallArguments {
    return this.is('operator', '(') ? this.parseCallArguments() : { positional: [], named: [] };
  }
}

export function describe(token: Token): string {
  return token.text === '' ? token.kind : `"${token.text}"`;
}
