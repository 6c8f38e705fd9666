import type { Budget } from './budget.js';
import { fail } from './errors.js';

/**
 * A value as Python has it. `number` and `bigint` are ints (a `bigint` only outside of JavaScript's safe integers), floats
 * are a class of their own, because `1.0` and `1` print differently. Nothing here is an object of JavaScript's that a
 * template could reach through: attributes are looked up in tables.
 */
export type Value =
  | None
  | boolean
  | string
  | number
  | bigint
  | Float
  | Markup
  | Undefined
  | Sequence
  | Dict
  | Callable
  | HostObject;

/** The class of {@link NONE}; an object, so that `??` cannot take it for a value that is missing. */
export class None {
  readonly typeName = 'NoneType';

  constructor(readonly isPrintable: boolean) {}
}

export const NONE = new None(true);
/** None to every question, but printing it fails: where a template would write "None", nobody wants it to. */
export const UNPRINTABLE_NONE = new None(false);

export class Float {
  constructor(readonly value: number) {}
}

/** A string that `safe` or `escape` made: what is added to it by `+` is escaped. */
export class Markup {
  constructor(readonly text: string) {}
}

/** A name or attribute that is not there: prints as nothing, is empty and false, and fails on every other use. */
export class Undefined {
  constructor(readonly message: string) {}

  fail(): never {
    return fail(this.message);
  }
}

export type SequenceKind = 'list' | 'tuple' | 'range' | 'dict_items' | 'dict_keys' | 'dict_values' | 'generator';

/** Everything with items in an order. A generator gives its items once, is always true and has no length. */
export class Sequence {
  private taken = 0;

  /**
   * @param label how a range prints
   * @param names attributes of the first items of a named tuple
   */
  constructor(
    readonly kind: SequenceKind,
    readonly items: readonly Value[],
    readonly label?: string,
    readonly names: readonly string[] = [],
  ) {}

  get isSubscriptable(): boolean {
    return this.kind === 'list' || this.kind === 'tuple' || this.kind === 'range';
  }

  /** The items that are left: all, but of a generator. */
  take(most = this.items.length): readonly Value[] {
    if (this.kind !== 'generator') return this.items.slice(0, most);
    const start = this.taken;
    this.taken = Math.min(start + most, this.items.length);
    return this.items.slice(start, this.taken);
  }
}

/** A function, a macro, a bound method. */
export class Callable {
  constructor(
    readonly name: string,
    readonly call: (args: Arguments) => Value,
    /** Attributes of a macro. */
    readonly attributes: ReadonlyMap<string, Value> = new Map(),
  ) {}
}

/** Arguments of a call. */
export class Arguments {
  constructor(
    readonly positional: readonly Value[],
    readonly named: ReadonlyMap<string, Value>,
    readonly budget: Budget,
  ) {}

  /** The values of `names` in order, `undefined` where none was passed. @throws TemplateError for any other argument */
  bind(callee: string, ...names: string[]): (Value | undefined)[] {
    if (this.positional.length > names.length) {
      fail(`${callee}() takes at most ${names.length} arguments, got ${this.positional.length}`);
    }
    for (const name of this.named.keys()) {
      const at = names.indexOf(name);
      if (at < 0) fail(`${callee}() got an unexpected argument "${name}"`);
      if (at < this.positional.length) fail(`${callee}() got two values for "${name}"`);
    }
    return names.map((name, i) => (i < this.positional.length ? this.positional[i] : this.named.get(name)));
  }
}

/** `loop`, `namespace()`, `cycler()`: objects with attributes of their own. */
export abstract class HostObject {
  abstract readonly typeName: string;
  abstract attribute(name: string): Value | undefined;
  /** Function of a callable object. */
  readonly call?: ((args: Arguments) => Value) | undefined;
}

export class Namespace extends HostObject {
  readonly typeName = 'Namespace';

  constructor(readonly attributes: Map<string, Value>) {
    super();
  }

  override attribute(name: string): Value | undefined {
    return this.attributes.get(name);
  }
}

type Key = string | number | bigint | None;

/** A dict: keys in the order they came first, `1`, `1.0` and `True` being one key. */
export class Dict {
  private readonly entryOf = new Map<Key, { readonly key: Value; value: Value }>();

  static of(entries: Iterable<readonly [Value, Value]>): Dict {
    const dict = new Dict();
    for (const [key, value] of entries) dict.set(key, value);
    return dict;
  }

  get size(): number {
    return this.entryOf.size;
  }

  get(key: Value): Value | undefined {
    if (key instanceof Undefined) return undefined;
    return this.entryOf.get(hash(key))?.value;
  }

  set(key: Value, value: Value): void {
    const hashed = hash(key);
    const entry = this.entryOf.get(hashed);
    if (entry === undefined) this.entryOf.set(hashed, { key, value });
    else entry.value = value;
  }

  keys(): Value[] {
    return Array.from(this.entryOf.values(), ({ key }) => key);
  }

  values(): Value[] {
    return Array.from(this.entryOf.values(), ({ value }) => value);
  }

  entries(): [Value, Value][] {
    return Array.from(this.entryOf.values(), ({ key, value }) => [key, value]);
  }
}

function hash(key: Value): Key {
  if (typeof key === 'string' || typeof key === 'number' || typeof key === 'bigint') return key;
  if (key instanceof None) return NONE;
  if (typeof key === 'boolean') return key ? 1 : 0;
  if (key instanceof Markup) return key.text;
  if (key instanceof Float) return Number.isInteger(key.value) ? integer(BigInt(key.value)) : key.value;
  return fail(`a ${typeName(key)} cannot be a key`);
}

export function list(items: readonly Value[]): Sequence {
  return new Sequence('list', items);
}

export function tuple(...items: Value[]): Sequence {
  return new Sequence('tuple', items);
}

export function generator(items: readonly Value[]): Sequence {
  return new Sequence('generator', items);
}

/** The int as a `number` where it is safe as one. */
export function integer(value: bigint): number | bigint {
  const small = Number(value);
  return Number.isSafeInteger(small) ? small : value;
}

/** The text of a `str`; `undefined` for every other type. */
export function asText(value: Value | undefined): string | undefined {
  if (typeof value === 'string') return value;
  return value instanceof Markup ? value.text : undefined;
}

/** An int, also a bool as one; `undefined` for every other type. */
export function asInteger(value: Value | undefined): number | bigint | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  return typeof value === 'boolean' ? Number(value) : undefined;
}

/** An int or a float as a float; `undefined` for every other type. */
export function asFloat(value: Value | undefined): number | undefined {
  if (value instanceof Float) return value.value;
  const int = asInteger(value);
  return int === undefined ? undefined : Number(int);
}

export function isTruthy(value: Value): boolean {
  if (typeof value === 'boolean') return value;
  if (value instanceof None || value === '' || value === 0 || value instanceof Undefined) return false;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Markup) return value.text !== '';
  if (value instanceof Dict) return value.size > 0;
  if (value instanceof Sequence) return value.kind === 'generator' || value.items.length > 0;
  return true;
}

/** Python's name of the type, for messages. */
export function typeName(value: Value): string {
  if (typeof value === 'boolean') return 'bool';
  if (typeof value === 'string') return 'str';
  if (typeof value === 'number' || typeof value === 'bigint') return 'int';
  if (value instanceof Float) return 'float';
  if (value instanceof Markup) return 'Markup';
  if (value instanceof Undefined) return 'Undefined';
  if (value instanceof Dict) return 'dict';
  if (value instanceof Sequence) return value.kind;
  if (value instanceof Callable) return 'function';
  return value.typeName;
}

/** Items that a `for` visits. @throws TemplateError for a value that cannot be iterated */
export function iterate(value: Value, budget: Budget): readonly Value[] {
  if (value instanceof Sequence) {
    budget.charge(value.items.length / 8);
    return value.kind === 'generator' ? value.take() : value.items;
  }
  const text = asText(value);
  if (text !== undefined) {
    budget.charge(text.length);
    return [...text];
  }
  if (value instanceof Dict) {
    budget.charge(value.size);
    return value.keys();
  }
  if (value instanceof Undefined) return [];
  return fail(`'${typeName(value)}' object is not iterable`);
}
