import type { FilterStep, Parameter, Statement, Target } from './ast.js';
import { call } from './attributes.js';
import { fail } from './errors.js';
import { type Evaluate, ExpressionCompiler } from './expressions.js';
import type { Frame } from './frame.js';
import { LoopContext } from './loop.js';
import { str } from './text.js';
import {
  Arguments,
  Callable,
  Dict,
  isTruthy,
  iterate,
  Namespace,
  NONE,
  tuple,
  Undefined,
  type Value,
} from './values.js';

/** End of a statement: ordinary, or by `break` or `continue` of the loop around it. */
type Outcome = 'done' | 'break' | 'continue';

type Execute = (frame: Frame) => Outcome;

/** Writes the values of a target into a frame. */
type Assign = (frame: Frame, value: Value) => void;

/** @throws TemplateError nowhere: what a template may not do shows when it is rendered */
export function compile(template: readonly Statement[]): (frame: Frame) => void {
  return new StatementCompiler().compileBody(template);
}

class StatementCompiler {
  private readonly expressions = new ExpressionCompiler();

  compileBody(statements: readonly Statement[]): Execute {
    const body = statements.map((statement) => this.compileCharged(statement));
    if (body.length === 1) return body[0]!;
    return (frame) => {
      for (const execute of body) {
        const outcome = execute(frame);
        if (outcome !== 'done') return outcome;
      }
      return 'done';
    };
  }

  /** The statement, which first pays for the nodes of its own expressions. */
  private compileCharged(statement: Statement): Execute {
    if (statement.kind === 'text') {
      const { text } = statement;
      return (frame) => {
        frame.rendering.budget.charge(1);
        frame.rendering.write(text);
        return 'done';
      };
    }
    const before = this.expressions.nodes;
    const execute = this.compileStatement(statement);
    const steps = 1 + this.expressions.nodes - before;
    return (frame) => {
      frame.rendering.budget.charge(steps);
      return execute(frame);
    };
  }

  private compileStatement(statement: Exclude<Statement, { kind: 'text' }>): Execute {
    switch (statement.kind) {
      case 'print': {
        const value = this.expressions.compile(statement.value);
        return (frame) => {
          frame.rendering.write(str(value(frame), frame.rendering.budget));
          return 'done';
        };
      }
      case 'if':
        return this.compileIf(statement);
      case 'for':
        return this.compileFor(statement);
      case 'break':
      case 'continue': {
        const { kind } = statement;
        return () => kind;
      }
      case 'set': {
        const assign = this.compileTarget(statement.target);
        const value = this.expressions.compile(statement.value);
        return (frame) => {
          assign(frame, value(frame));
          return 'done';
        };
      }
      case 'setBlock': {
        const assign = this.compileTarget(statement.target);
        const capture = this.compileCapture(statement.filters, statement.body);
        return (frame) => {
          assign(frame, capture(frame));
          return 'done';
        };
      }
      case 'filterBlock': {
        const capture = this.compileCapture(statement.filters, statement.body);
        return (frame) => {
          frame.rendering.write(str(capture(frame), frame.rendering.budget));
          return 'done';
        };
      }
      case 'macro': {
        const make = this.compileMacro(statement.name, statement.parameters, statement.body);
        return (frame) => {
          frame.set(statement.name, make(frame));
          return 'done';
        };
      }
      case 'callBlock':
        return this.compileCallBlock(statement);
      case 'with': {
        const values = statement.values.map(
          ([target, value]) => [this.compileTarget(target), this.expressions.compile(value)] as const,
        );
        const body = this.compileBody(statement.body);
        return (frame) => {
          const inner = frame.inner();
          for (const [assign, value] of values) assign(inner, value(frame));
          return body(inner);
        };
      }
      case 'group':
        return this.compileBody(statement.body);
    }
  }

  private compileIf(statement: Statement & { readonly kind: 'if' }): Execute {
    const branches = statement.branches.map(({ test, body }) => ({
      test: this.expressions.compile(test),
      body: this.compileBody(body),
    }));
    const otherwise = this.compileBody(statement.otherwise);
    return (frame) => {
      for (const { test, body } of branches) if (isTruthy(test(frame))) return body(frame);
      return otherwise(frame);
    };
  }

  private compileFor(statement: Statement & { readonly kind: 'for' }): Execute {
    const over = this.expressions.compile(statement.over);
    const assign = this.compileTarget(statement.target);
    const condition = statement.condition && this.expressions.compile(statement.condition);
    const body = this.compileBody(statement.body);
    const otherwise = this.compileBody(statement.otherwise);

    const run = (frame: Frame, value: Value, depth: number): Outcome => {
      const { rendering } = frame;
      let items = iterate(value, rendering.budget);
      if (condition !== undefined) {
        items = items.filter((item) => {
          rendering.budget.charge(1);
          const inner = frame.inner();
          assign(inner, item);
          return isTruthy(condition(inner));
        });
      }
      const recurse = (args: Arguments): Value => {
        const [next] = args.bind('loop', 'iterable');
        return rendering.enter(() => rendering.capture(() => run(frame, next ?? NONE, depth + 1)));
      };
      const loop = new LoopContext(items, depth, statement.isRecursive ? recurse : undefined);
      for (loop.index = 0; loop.index < items.length; loop.index++) {
        rendering.budget.charge(1);
        const inner = frame.inner();
        inner.set('loop', loop);
        assign(inner, items[loop.index]!);
        if (body(inner) === 'break') break;
      }
      return items.length === 0 ? otherwise(frame) : 'done';
    };
    return (frame) => run(frame, over(frame), 0);
  }

  private compileTarget(target: Target): Assign {
    if (target.kind === 'name') return (frame, value) => frame.set(target.name, value);
    if (target.kind === 'attribute') {
      this.expressions.names.add(target.namespace);
      return (frame, value) => {
        const namespace = frame.get(target.namespace);
        if (!(namespace instanceof Namespace)) fail(`"${target.namespace}" is not a namespace that can be assigned to`);
        else namespace.attributes.set(target.name, value);
      };
    }
    const parts = target.items.map((item) => this.compileTarget(item));
    return (frame, value) => {
      const values = iterate(value, frame.rendering.budget);
      if (values.length !== parts.length) fail(`${values.length} values cannot be unpacked into ${parts.length} names`);
      parts.forEach((assign, i) => {
        assign(frame, values[i]!);
      });
    };
  }

  /** Output of a body, after the filters. */
  private compileCapture(filters: readonly FilterStep[], body: readonly Statement[]): Evaluate {
    const execute = this.compileBody(body);
    const steps = filters.map((step) => this.expressions.compileFilter(step));
    return (frame) => {
      const inner = frame.inner();
      const text = frame.rendering.capture(() => execute(inner));
      return steps.reduce<Value>((value, apply) => apply(value, inner), text);
    };
  }

  private compileCallBlock(statement: Statement & { readonly kind: 'callBlock' }): Execute {
    const make = this.compileMacro('caller', statement.parameters, statement.body);
    const callee = this.expressions.compile(statement.call.callee);
    const args = this.expressions.compileArguments(statement.call.args);
    return (frame) => {
      const { positional, named, budget } = args(frame);
      const withCaller = new Map([...named, ['caller', make(frame)]]);
      frame.rendering.write(str(call(callee(frame), new Arguments(positional, withCaller, budget)), budget));
      return 'done';
    };
  }

  private compileMacro(
    name: string,
    parameters: readonly Parameter[],
    statements: readonly Statement[],
  ): (frame: Frame) => Callable {
    const { names } = this.expressions;
    const outerNames = [...names];
    names.clear();
    const defaults = parameters.map((parameter) => parameter.default && this.expressions.compile(parameter.default));
    const body = this.compileBody(statements);
    const uses = { varargs: names.has('varargs'), kwargs: names.has('kwargs'), caller: names.has('caller') };
    for (const outer of outerNames) names.add(outer);

    const bind = (frame: Frame, { positional, named }: Arguments): void => {
      const rest = new Map(named);
      parameters.forEach((parameter, i) => {
        if (i < positional.length && rest.has(parameter.name)) fail(`${name}() got two values for "${parameter.name}"`);
        const given = i < positional.length ? positional[i] : rest.get(parameter.name);
        rest.delete(parameter.name);
        frame.set(
          parameter.name,
          given ?? defaults[i]?.(frame) ?? new Undefined(`parameter '${parameter.name}' was not provided`),
        );
      });
      if (uses.caller) frame.set('caller', rest.get('caller') ?? new Undefined('no caller defined'));
      if (uses.caller) rest.delete('caller');
      if (uses.kwargs) frame.set('kwargs', Dict.of(rest));
      else if (rest.size > 0) fail(`macro '${name}' takes no keyword argument '${[...rest.keys()][0]}'`);
      if (uses.varargs) frame.set('varargs', tuple(...positional.slice(parameters.length)));
      else if (positional.length > parameters.length) {
        fail(`macro '${name}' takes not more than ${parameters.length} arguments`);
      }
    };
    const attributes = new Map<string, Value>([
      ['name', name],
      ['arguments', tuple(...parameters.map((parameter) => parameter.name))],
    ]);
    return (definition) =>
      new Callable(
        name,
        (args) => {
          const frame = definition.inner();
          const { rendering } = frame;
          rendering.budget.charge(1 + args.positional.length + args.named.size);
          return rendering.enter(() => {
            bind(frame, args);
            return rendering.capture(() => body(frame));
          });
        },
        attributes,
      );
  }
}
