import type { Comparison } from './ast.js';
import { fail } from './errors.js';
import { binary, compare, contains, equals } from './operators.js';
import { STRING_METHODS } from './string-methods.js';
import { str } from './text.js';
import {
  type Arguments,
  asInteger,
  asText,
  Callable,
  Dict,
  Float,
  Markup,
  NONE,
  None,
  Sequence,
  Undefined,
  type Value,
} from './values.js';

type Test = (value: Value, args: Arguments) => boolean;

/** `value is name(args)`. @throws TemplateError for a test that Jinja has not */
export function applyTest(name: string, value: Value, args: Arguments): boolean {
  const test = TESTS.get(name) ?? fail(`the test "${name}" is not supported`);
  args.budget.charge(1);
  return test(value, args);
}

const plain =
  (name: string, test: (value: Value) => boolean): Test =>
  (value, args) => {
    args.bind(name);
    return test(value);
  };

const comparing =
  (operator: Comparison): Test =>
  (value, args) => {
    const [other] = args.bind(operator, 'other');
    return compare(operator, value, other ?? fail(`the test "${operator}" needs a value`), args.budget);
  };

const remainder =
  (name: string, divisor: number, wanted: number): Test =>
  (value, args) => {
    args.bind(name);
    return equals(binary('%', value, divisor, args.budget), wanted, args.budget);
  };

const cased =
  (name: 'islower' | 'isupper'): Test =>
  (value, args) =>
    STRING_METHODS.get(name)!(str(value, args.budget), args) as boolean;

const isInteger = (value: Value) => typeof value === 'number' || typeof value === 'bigint';
/** Python asks for `__call__`, which even an undefined value has. */
const isCallable = (value: Value) => value instanceof Callable || value instanceof Undefined;
const isIterable = (value: Value) =>
  value instanceof Sequence || value instanceof Dict || value instanceof Undefined || asText(value) !== undefined;
/** Python asks for a length and for items by index, which even an undefined value seems to have. */
const isSequence = (value: Value) => isIterable(value) && !(value instanceof Sequence && !value.isSubscriptable);

const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ['defined', plain('defined', (value) => !(value instanceof Undefined))],
  ['undefined', plain('undefined', (value) => value instanceof Undefined)],
  ['none', plain('none', (value) => value instanceof None)],
  ['boolean', plain('boolean', (value) => typeof value === 'boolean')],
  ['true', plain('true', (value) => value === true)],
  ['false', plain('false', (value) => value === false)],
  ['integer', plain('integer', isInteger)],
  ['float', plain('float', (value) => value instanceof Float)],
  ['number', plain('number', (value) => asInteger(value) !== undefined || value instanceof Float)],
  ['string', plain('string', (value) => asText(value) !== undefined)],
  ['mapping', plain('mapping', (value) => value instanceof Dict)],
  ['iterable', plain('iterable', isIterable)],
  ['sequence', plain('sequence', isSequence)],
  ['callable', plain('callable', isCallable)],
  ['escaped', plain('escaped', (value) => value instanceof Markup)],
  ['lower', cased('islower')],
  ['upper', cased('isupper')],
  ['even', remainder('even', 2, 0)],
  ['odd', remainder('odd', 2, 1)],
  [
    'divisibleby',
    (value, args) => {
      const [divisor] = args.bind('divisibleby', 'num');
      return equals(binary('%', value, divisor ?? NONE, args.budget), 0, args.budget);
    },
  ],
  [
    'sameas',
    (value, args) => {
      const [other] = args.bind('sameas', 'other');
      return value === other;
    },
  ],
  [
    'in',
    (value, args) => {
      const [container] = args.bind('in', 'seq');
      return contains(container ?? NONE, value, args.budget);
    },
  ],
  ...(
    [
      ['==', ['eq', 'equalto', '==']],
      ['!=', ['ne', '!=']],
      ['<', ['lt', 'lessthan', '<']],
      ['<=', ['le', '<=']],
      ['>', ['gt', 'greaterthan', '>']],
      ['>=', ['ge', '>=']],
    ] as const
  ).flatMap(([operator, names]) => names.map((name): [string, Test] => [name, comparing(operator)])),
]);
