import type { Budget } from './budget.js';
import { fail } from './errors.js';
import { equals } from './operators.js';
import { type Method, STRING_METHODS } from './string-methods.js';
import { repr, str } from './text.js';
import {
  type Arguments,
  asText,
  Callable,
  Dict,
  HostObject,
  Markup,
  NONE,
  None,
  Sequence,
  tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

const DICT_METHODS: ReadonlyMap<string, Method<Dict>> = new Map<string, Method<Dict>>([
  [
    'items',
    (dict, args) =>
      view(
        'dict_items',
        dict.entries().map((entry) => tuple(...entry)),
        args,
      ),
  ],
  ['keys', (dict, args) => view('dict_keys', dict.keys(), args)],
  ['values', (dict, args) => view('dict_values', dict.values(), args)],
  [
    'get',
    (dict, args) => {
      const [key, fallback = NONE] = args.bind('get', 'key', 'default');
      return dict.get(key ?? fail('get() needs a key')) ?? fallback;
    },
  ],
  ['copy', (dict, args) => Dict.of(view('dict_items', [], args) && dict.entries())],
]);

function view(kind: 'dict_items' | 'dict_keys' | 'dict_values', items: Value[], args: Arguments): Sequence {
  args.bind(kind);
  args.budget.charge(items.length);
  return new Sequence(kind, items);
}

const SEQUENCE_METHODS: ReadonlyMap<string, Method<Sequence>> = new Map<string, Method<Sequence>>([
  [
    'index',
    (sequence, args) => {
      const wanted = args.bind('index', 'value')[0] ?? fail('index() needs a value');
      const at = sequence.items.findIndex((item) => equals(item, wanted, args.budget));
      return at >= 0 ? at : fail(`${repr(wanted, args.budget)} is not in the ${sequence.kind}`);
    },
  ],
  [
    'count',
    (sequence, args) => {
      const wanted = args.bind('count', 'value')[0] ?? fail('count() needs a value');
      return sequence.items.filter((item) => equals(item, wanted, args.budget)).length;
    },
  ],
]);

/** Methods that the sandbox of `transformers` forbids: they would change a value. */
const FORBIDDEN: Readonly<Record<string, readonly string[]>> = {
  list: ['append', 'clear', 'pop', 'reverse', 'insert', 'sort', 'extend', 'remove'],
  dict: ['clear', 'pop', 'popitem', 'setdefault', 'update'],
};
/** Methods that Python has and this implementation lacks. */
const UNSUPPORTED: Readonly<Record<string, readonly string[]>> = {
  str: [
    'encode',
    'expandtabs',
    'format_map',
    'isascii',
    'isidentifier',
    'isprintable',
    'istitle',
    'maketrans',
    'translate',
  ],
  list: ['copy'],
  dict: ['fromkeys'],
};

function methodOf(target: Value, name: string): ((args: Arguments) => Value) | undefined {
  const text = asText(target);
  if (text !== undefined) {
    const method = STRING_METHODS.get(name);
    if (method === undefined) return undefined;
    if (!(target instanceof Markup)) return (args) => method(text, args);
    return (args) => {
      const result = method(text, args);
      return typeof result === 'string' ? new Markup(result) : result;
    };
  }
  if (target instanceof Dict) {
    const method = DICT_METHODS.get(name);
    return method && ((args) => method(target, args));
  }
  if (target instanceof Sequence && target.isSubscriptable) {
    const method = SEQUENCE_METHODS.get(name);
    return method && ((args) => method(target, args));
  }
  return undefined;
}

/** `target.name`, as Python's `getattr`: methods and a host object's attributes; `undefined` where it raises. */
function attributeOf(target: Value, name: string): Value | undefined {
  if (target instanceof HostObject) return target.attribute(name);
  if (target instanceof Callable) return target.attributes.get(name);
  if (target instanceof Sequence && target.names.includes(name)) return target.items[target.names.indexOf(name)];
  const method = methodOf(target, name);
  if (method !== undefined) return new Callable(name, method);
  const type = target instanceof Markup ? 'str' : typeName(target);
  if (FORBIDDEN[type]?.includes(name) || /^__\w+__$/.test(name)) {
    return new Undefined(`access to attribute '${name}' of '${type}' object is unsafe`);
  }
  return UNSUPPORTED[type]?.includes(name) ? fail(`"${name}" of a ${type} is not supported`) : undefined;
}

/** `{{ target.name }}`: the attribute, else the item. */
export function getAttribute(target: Value, name: string): Value {
  if (target instanceof Undefined) target.fail();
  const value = attributeOf(target, name) ?? (target instanceof Dict ? target.get(name) : undefined);
  return value ?? new Undefined(`'${describe(target)}' has no attribute '${name}'`);
}

/** The attribute for an item that is not there: `{{ target['name'] }}`. */
export function getAttributeAsItem(target: Value, index: Value, budget: Budget): Value {
  if (target instanceof Undefined) target.fail();
  const name = asText(index);
  const value = name === undefined ? undefined : attributeOf(target, name);
  return value ?? new Undefined(`'${describe(target)}' has no element ${name ?? str(index, budget)}`);
}

function describe(target: Value): string {
  return target instanceof None ? 'None' : `${typeName(target)} object`;
}

/** `target.name(args)` without making a bound method first. */
export function callMethod(target: Value, name: string, args: Arguments): Value {
  if (target instanceof Undefined) target.fail();
  const method = methodOf(target, name);
  return method === undefined ? call(getAttribute(target, name), args) : method(args);
}

/** @throws TemplateError for what is not callable */
export function call(callee: Value, args: Arguments): Value {
  args.budget.charge(1);
  if (callee instanceof Callable) return callee.call(args);
  if (callee instanceof Undefined) callee.fail();
  if (callee instanceof HostObject && callee.call !== undefined) return callee.call(args);
  return fail(`'${typeName(callee)}' object is not callable`);
}
