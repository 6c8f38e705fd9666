import type { Comparison, Operator } from './ast.js';
import type { Budget } from './budget.js';
import { fail } from './errors.js';
import { formatPercent } from './format.js';
import { charactersOf, compareText, escapeHtml, str } from './text.js';
import {
  asFloat,
  asInteger,
  asText,
  Dict,
  Float,
  integer,
  iterate,
  Markup,
  None,
  Sequence,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** Ints of more bits are an attack; 4,300 digits, the most that print, are 14,285 bits. */
const MAX_BITS = 100_000;

/** A binary operation as Python does it. @throws TemplateError for types it is not defined for */
export function binary(operator: Operator, left: Value, right: Value, budget: Budget): Value {
  // By far the most frequent: text and text, small int and small int.
  if (operator === '+' && typeof left === 'string' && typeof right === 'string') {
    budget.chargeJoin(left, right);
    return left + right;
  }
  if (left instanceof Undefined) left.fail();
  if (operator === '%' && asText(left) !== undefined) return formatPercent(left as string | Markup, right, budget);
  if (right instanceof Undefined) right.fail();
  const [a, b] = [asInteger(left), asInteger(right)];
  if (a !== undefined && b !== undefined) return ofIntegers(operator, a, b, budget);
  const [x, y] = [asFloat(left), asFloat(right)];
  if (x !== undefined && y !== undefined) return new Float(ofFloats(operator, x, y));
  const result =
    operator === '+' ? join(left, right, budget) : operator === '*' ? repeat(left, right, budget) : undefined;
  if (result !== undefined) return result;
  return fail(`unsupported operand types for ${operator}: '${typeName(left)}' and '${typeName(right)}'`);
}

function ofIntegers(operator: Operator, a: number | bigint, b: number | bigint, budget: Budget): Value {
  if (operator === '/') return b === 0 ? divisionByZero() : new Float(quotient(a, b));
  if (operator === '**' && b < 0) return new Float(Number(a) ** Number(b));
  if (typeof a === 'number' && typeof b === 'number') {
    const result = ofSmall(operator, a, b);
    if (Number.isSafeInteger(result)) return result;
  }
  return integer(ofLarge(operator, BigInt(a), BigInt(b), budget));
}

/** The quotient of large ints is exact where it is whole. */
function quotient(a: number | bigint, b: number | bigint): number {
  const isLarge = typeof a === 'bigint' || typeof b === 'bigint';
  return isLarge && BigInt(a) % BigInt(b) === 0n ? Number(BigInt(a) / BigInt(b)) : Number(a) / Number(b);
}

function ofSmall(operator: Operator, a: number, b: number): number {
  if ((operator === '//' || operator === '%') && b === 0) return divisionByZero();
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '//':
      // The quotient of safe integers may be rounded up to the next integer.
      return (a - modulo(a, b)) / b;
    case '%':
      return modulo(a, b);
    default:
      return a ** b;
  }
}

function ofLarge(operator: Operator, a: bigint, b: bigint, budget: Budget): bigint {
  if ((operator === '//' || operator === '%') && b === 0n) return divisionByZero();
  const bits = (value: bigint) => value.toString(16).length * 4;
  const size = operator === '**' ? bits(a) * Number(b) : operator === '*' ? bits(a) + bits(b) : 0;
  if (size > MAX_BITS) fail(`an int has more than ${MAX_BITS} bits`);
  budget.charge(bits(a) + bits(b));
  switch (operator) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '//':
      return (a - (((a % b) + b) % b)) / b;
    case '%':
      return ((a % b) + b) % b;
    default:
      return a ** b;
  }
}

function ofFloats(operator: Operator, x: number, y: number): number {
  if ((operator === '/' || operator === '//' || operator === '%') && y === 0) return divisionByZero();
  switch (operator) {
    case '+':
      return x + y;
    case '-':
      return x - y;
    case '*':
      return x * y;
    case '/':
      return x / y;
    case '//':
      return Math.floor(x / y);
    case '%':
      return modulo(x, y);
    default:
      return x ** y;
  }
}

/** The remainder with the divisor's sign. */
function modulo(a: number, b: number): number {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest + 0;
}

function divisionByZero(): never {
  return fail('division by zero');
}

function join(left: Value, right: Value, budget: Budget): Value | undefined {
  const [a, b] = [asText(left), asText(right)];
  if (a !== undefined && b !== undefined) {
    const [first, second] = [escapeHtml(left, budget).text, escapeHtml(right, budget).text];
    budget.chargeJoin(first, second);
    return new Markup(first + second);
  }
  if (!(left instanceof Sequence && right instanceof Sequence) || left.kind !== right.kind) return undefined;
  if (left.kind !== 'list' && left.kind !== 'tuple') return undefined;
  budget.chargeCopy(left.items.length + right.items.length);
  return new Sequence(left.kind, [...left.items, ...right.items]);
}

function repeat(left: Value, right: Value, budget: Budget): Value | undefined {
  const [many, count] = asInteger(left) === undefined ? [left, asInteger(right)] : [right, asInteger(left)];
  if (count === undefined) return undefined;
  const times = count > 0 ? Number(count) : 0;
  const text = asText(many);
  if (text !== undefined) {
    budget.chargeText(text.length * times);
    const repeated = text.repeat(times);
    return many instanceof Markup ? new Markup(repeated) : repeated;
  }
  if (!(many instanceof Sequence) || (many.kind !== 'list' && many.kind !== 'tuple')) return undefined;
  budget.charge(many.items.length * times);
  return new Sequence(many.kind, Array.from({ length: times }, () => many.items).flat());
}

/** `-value` or `+value`. */
export function negate(operator: '-' | '+', value: Value): Value {
  if (value instanceof Undefined) value.fail();
  if (value instanceof Float) return new Float(operator === '-' ? -value.value : value.value);
  const int = asInteger(value);
  if (int === undefined) return fail(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  return operator === '+' ? int : typeof int === 'number' ? 0 - int : integer(-int);
}

export function compare(operator: Comparison, left: Value, right: Value, budget: Budget): boolean {
  switch (operator) {
    case '==':
      return equals(left, right, budget);
    case '!=':
      return !equals(left, right, budget);
    case 'in':
      return contains(right, left, budget);
    case 'not in':
      return !contains(right, left, budget);
    case '<':
      return order(left, right, budget) < 0;
    case '<=':
      return order(left, right, budget) <= 0;
    case '>':
      return order(left, right, budget) > 0;
    case '>=':
      return order(left, right, budget) >= 0;
  }
}

export function equals(left: Value, right: Value, budget: Budget): boolean {
  budget.charge(1);
  if (left === right) return true;
  const [x, y] = [numeric(left), numeric(right)];
  if (x !== undefined && y !== undefined) return isSameNumber(x, y);
  const a = asText(left);
  if (a !== undefined) return a === asText(right);
  if (left instanceof Undefined) return right instanceof Undefined;
  if (left instanceof None) return right instanceof None;
  if (left instanceof Sequence && right instanceof Sequence) {
    if (left.kind !== right.kind || left.kind === 'generator' || left.items.length !== right.items.length) return false;
    return left.items.every((item, i) => equals(item, right.items[i]!, budget));
  }
  if (left instanceof Dict && right instanceof Dict) {
    if (left.size !== right.size) return false;
    return left.entries().every(([key, value]) => {
      const other = right.get(key);
      return other !== undefined && equals(value, other, budget);
    });
  }
  return false;
}

/** An int, which is a bigint, and a float may be equal; NaN is equal to nothing. */
function isSameNumber(x: number | bigint, y: number | bigint): boolean {
  return x <= y && x >= y;
}

/** Below 0, 0 or above 0, as `left` is less than, equal to or more than `right`; NaN where neither. */
export function order(left: Value, right: Value, budget: Budget): number {
  budget.charge(1);
  if (left instanceof Undefined) left.fail();
  if (right instanceof Undefined) right.fail();
  const [x, y] = [numeric(left), numeric(right)];
  if (x !== undefined && y !== undefined) return x < y ? -1 : x > y ? 1 : isSameNumber(x, y) ? 0 : Number.NaN;
  const [a, b] = [asText(left), asText(right)];
  if (a !== undefined && b !== undefined) return compareText(a, b);
  if (left instanceof Sequence && right instanceof Sequence && left.kind === right.kind) {
    if (left.kind === 'list' || left.kind === 'tuple') {
      for (let i = 0; i < left.items.length && i < right.items.length; i++) {
        if (!equals(left.items[i]!, right.items[i]!, budget)) return order(left.items[i]!, right.items[i]!, budget);
      }
      return left.items.length - right.items.length;
    }
  }
  return fail(`'${typeName(left)}' and '${typeName(right)}' have no order`);
}

function numeric(value: Value): number | bigint | undefined {
  return value instanceof Float ? value.value : asInteger(value);
}

/** `item in container` */
export function contains(container: Value, item: Value, budget: Budget): boolean {
  const text = asText(container);
  if (text !== undefined) {
    if (item instanceof Undefined) item.fail();
    const part = asText(item);
    if (part === undefined) return fail(`'in <string>' needs a string on its left, not ${typeName(item)}`);
    budget.chargeSearch(text, part);
    return text.includes(part);
  }
  if (container instanceof Dict) return container.get(item) !== undefined;
  return iterate(container, budget).some((other) => equals(item, other, budget));
}

/** `target[index]` as Python has it; `undefined` where it raises. */
export function subscript(target: Value, index: Value, budget: Budget): Value | undefined {
  if (target instanceof Dict) {
    // A list cannot be a key: as where it is no key.
    if (index instanceof Sequence || index instanceof Dict) return undefined;
    return target.get(index);
  }
  const at = asInteger(index);
  if (at === undefined) return undefined;
  const text = asText(target);
  const items =
    text !== undefined
      ? charactersOf(text, budget)
      : target instanceof Sequence && target.isSubscriptable
        ? target.items
        : [];
  return items.at(Number(at));
}

/** `target[start:stop:step]` @throws TemplateError for a type without slices */
export function slice(target: Value, bounds: readonly (Value | undefined)[], budget: Budget): Value {
  const text = asText(target);
  if (target instanceof Undefined) target.fail();
  if (text === undefined && !(target instanceof Sequence && target.isSubscriptable)) {
    return fail(`'${typeName(target)}' object has no slices`);
  }
  const items = text === undefined ? (target as Sequence).items : charactersOf(text, budget);
  const [start, stop, step] = bounds.map((bound) =>
    bound === undefined || bound instanceof None ? undefined : toIndex(bound),
  );
  if (step === 0) fail('slice step cannot be zero');
  const picked = pick(items, start, stop, step ?? 1);
  if (typeof picked === 'string') {
    budget.chargeText(picked.length);
    return picked;
  }
  budget.chargeCopy(picked.length);
  if (text !== undefined) return (picked as readonly string[]).join('');
  const sequence = target as Sequence;
  return new Sequence(sequence.kind === 'range' ? 'list' : sequence.kind, picked as readonly Value[]);
}

function toIndex(bound: Value): number {
  const index = asInteger(bound);
  if (index === undefined) return fail(`slice bounds are ints or none, not ${typeName(bound)}`);
  return Number(index);
}

function pick<T>(
  items: string | readonly T[],
  start: number | undefined,
  stop: number | undefined,
  step: number,
): string | readonly T[] {
  const { length } = items;
  if (step === 1) return items.slice(start ?? 0, stop ?? length);
  const from = step > 0 ? 0 : -1;
  const to = step > 0 ? length : length - 1;
  const clamp = (bound: number) => Math.min(Math.max(bound < 0 ? bound + length : bound, from), to);
  const last = stop === undefined ? (step > 0 ? length : -1) : clamp(stop);
  const picked: T[] = [];
  for (
    let at = start === undefined ? (step > 0 ? 0 : length - 1) : clamp(start);
    step > 0 ? at < last : at > last;
    at += step
  ) {
    picked.push(items[at] as T);
  }
  return typeof items === 'string' ? picked.join('') : picked;
}

/** The texts of the values, one behind the other: the operator `~`. */
export function concat(values: readonly Value[], budget: Budget): string {
  let text = '';
  for (const value of values) {
    const next = str(value, budget);
    budget.chargeJoin(text, next);
    text += next;
  }
  return text;
}
