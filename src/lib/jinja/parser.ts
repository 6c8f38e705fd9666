import type { Expression, Parameter, Statement, Target } from './ast.js';
import { describe, ExpressionParser } from './expression-parser.js';
import type { Token } from './lexer.js';

/** @throws TemplateError for a template that Jinja would not take, or a tag that is not supported */
export function parse(source: string): readonly Statement[] {
  return new Parser(source).parseTemplate();
}

/** Statements, as Jinja's own parser reads them, with the tags of `loopcontrols` and `transformers`' `generation`. */
class Parser extends ExpressionParser {
  private loops = 0;

  parseTemplate(): Statement[] {
    const body = this.parseBody([]);
    if (!this.is('end')) this.fail(`unexpected ${describe(this.current)}`);
    return body;
  }

  /** Statements up to a tag with one of the names, whose name is then current. */
  private parseBody(endings: readonly string[]): Statement[] {
    const body: Statement[] = [];
    for (;;) {
      const token = this.current;
      if (token.kind === 'data') {
        body.push({ kind: 'text', text: this.next().text });
      } else if (token.kind === 'variableBegin') {
        this.next();
        body.push({ kind: 'print', value: this.parseTuple() });
        this.expect('variableEnd');
      } else if (token.kind === 'blockBegin') {
        this.next();
        if (this.current.kind === 'name' && endings.includes(this.current.text)) return body;
        body.push(this.nested(() => this.parseStatement()));
      } else {
        if (endings.length > 0) this.fail(`expected {% ${endings.join(' %} or {% ')} %}, found ${describe(token)}`);
        return body;
      }
    }
  }

  private parseStatement(): Statement {
    const tag = this.expect('name');
    switch (tag.text) {
      case 'if':
        return this.parseIf();
      case 'for':
        return this.parseFor();
      case 'break':
      case 'continue':
        if (this.loops === 0) this.fail(`"${tag.text}" outside of a loop`);
        this.expect('blockEnd');
        return { kind: tag.text };
      case 'set':
        return this.parseSet();
      case 'macro':
        return this.parseMacro();
      case 'call':
        return this.parseCallBlock();
      case 'filter': {
        const filters = this.parseFilterSteps();
        return { kind: 'filterBlock', filters, body: this.parseBlock('endfilter') };
      }
      case 'with':
        return this.parseWith();
      case 'generation':
        return { kind: 'group', body: this.parseBlock('endgeneration') };
      default:
        return this.unknownTag(tag);
    }
  }

  private unknownTag(tag: Token): never {
    return this.fail(`the tag "${tag.text}" is not supported`);
  }

  /** The rest of the opening tag, the body and the closing tag. */
  private parseBlock(end: string): Statement[] {
    this.expect('blockEnd');
    const body = this.parseBody([end]);
    this.next();
    this.expect('blockEnd');
    return body;
  }

  private parseIf(): Statement {
    const branches: { test: Expression; body: readonly Statement[] }[] = [];
    for (;;) {
      const test = this.parseTuple({ withChoice: false });
      this.expect('blockEnd');
      branches.push({ test, body: this.parseBody(['elif', 'else', 'endif']) });
      if (!this.skip('name', 'elif')) break;
    }
    return { kind: 'if', branches, otherwise: this.parseElse('endif') };
  }

  private parseElse(end: string): Statement[] {
    const otherwise = this.skip('name', 'else') ? this.parseElseBody(end) : [];
    this.expect('name', end);
    this.expect('blockEnd');
    return otherwise;
  }

  private parseElseBody(end: string): Statement[] {
    this.expect('blockEnd');
    return this.parseBody([end]);
  }

  private parseFor(): Statement {
    const target = this.parseTarget(() => this.is('name', 'in'));
    this.expect('name', 'in');
    const over = this.parseTuple({ withChoice: false, isEnd: () => this.is('name', 'recursive') });
    const condition = this.skip('name', 'if') ? this.parseExpression() : undefined;
    const isRecursive = this.skip('name', 'recursive');
    this.expect('blockEnd');
    this.loops++;
    const body = this.parseBody(['endfor', 'else']);
    this.loops--;
    return { kind: 'for', target, over, condition, isRecursive, body, otherwise: this.parseElse('endfor') };
  }

  private parseSet(): Statement {
    const target = this.parseTarget(() => this.is('operator', '='));
    if (this.skip('operator', '=')) {
      const value = this.parseTuple();
      this.expect('blockEnd');
      return { kind: 'set', target, value };
    }
    const filters = this.skip('operator', '|') ? this.parseFilterSteps() : [];
    return { kind: 'setBlock', target, filters, body: this.parseBlock('endset') };
  }

  private parseMacro(): Statement {
    const name = this.expect('name').text;
    const parameters = this.parseParameters();
    return { kind: 'macro', name, parameters, body: this.parseSeparate('endmacro') };
  }

  private parseCallBlock(): Statement {
    const parameters = this.is('operator', '(') ? this.parseParameters() : [];
    const call = this.parseExpression();
    if (call.kind !== 'call') return this.fail('a call block needs a call');
    return { kind: 'callBlock', call, parameters, body: this.parseSeparate('endcall') };
  }

  /** A body that no loop around it can be left from. */
  private parseSeparate(end: string): Statement[] {
    const { loops } = this;
    this.loops = 0;
    const body = this.parseBlock(end);
    this.loops = loops;
    return body;
  }

  private parseParameters(): Parameter[] {
    const parameters: Parameter[] = [];
    this.expect('operator', '(');
    while (!this.skip('operator', ')')) {
      if (parameters.length > 0) this.expect('operator', ',');
      const name = this.expect('name').text;
      const value = this.skip('operator', '=') ? this.parseExpression() : undefined;
      if (value === undefined && parameters.at(-1)?.default !== undefined) {
        this.fail(`the parameter "${name}" follows one with a default`);
      }
      parameters.push({ name, default: value });
    }
    return parameters;
  }

  private parseWith(): Statement {
    const values: [Target, Expression][] = [];
    while (!this.is('blockEnd')) {
      if (values.length > 0) this.expect('operator', ',');
      const target = this.parseTarget(() => this.is('operator', '='));
      this.expect('operator', '=');
      values.push([target, this.parseExpression()]);
    }
    return { kind: 'with', values, body: this.parseBlock('endwith') };
  }

  private parseTarget(isEnd: () => boolean): Target {
    const items: Target[] = [];
    let isTuple = false;
    while (!isEnd() && !this.is('operator', ')')) {
      items.push(this.parseSingleTarget());
      if (!this.skip('operator', ',')) break;
      isTuple = true;
    }
    if (items.length === 0) this.fail(`expected a name, found ${describe(this.current)}`);
    return isTuple ? { kind: 'tuple', items } : items[0]!;
  }

  private parseSingleTarget(): Target {
    if (this.skip('operator', '(')) {
      const target = this.nested(() => this.parseTarget(() => false));
      this.expect('operator', ')');
      return target;
    }
    const name = this.expect('name').text;
    if (!this.skip('operator', '.')) return { kind: 'name', name };
    return { kind: 'attribute', namespace: name, name: this.expect('name').text };
  }
}
