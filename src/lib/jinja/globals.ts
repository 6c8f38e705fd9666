import { fail } from './errors.js';
import { str } from './text.js';
import {
  type Arguments,
  asInteger,
  Callable,
  Dict,
  HostObject,
  iterate,
  Namespace,
  NONE,
  Sequence,
  typeName,
  type Value,
} from './values.js';

/** The sandbox of `transformers` has the same. */
const MAX_RANGE = 100_000;

/** Names of every template: Jinja's functions, and the two that `transformers` adds. */
export function globalValues(now: () => Date): Map<string, Value> {
  const define = (name: string, call: (args: Arguments) => Value): [string, Value] => [name, new Callable(name, call)];
  return new Map<string, Value>([
    define('range', range),
    define('dict', (args) => Dict.of(pairsOf(args))),
    define('namespace', (args) => {
      const pairs = pairsOf(args).map(([name, value]): [string, Value] => [str(name, args.budget), value]);
      return new Namespace(new Map(pairs));
    }),
    define('cycler', (args) => new Cycler(args.positional)),
    define('joiner', (args) => {
      const [separator = ', '] = args.bind('joiner', 'sep');
      let isFirst = true;
      return new Callable('joiner', () => {
        const text = isFirst ? '' : separator;
        isFirst = false;
        return text;
      });
    }),
    define('raise_exception', (args) => fail(str(args.bind('raise_exception', 'message')[0] ?? NONE, args.budget))),
    define('strftime_now', (args) => strftime(str(args.bind('strftime_now', 'format')[0] ?? NONE, args.budget), now())),
  ]);
}

function pairsOf(args: Arguments): (readonly [Value, Value])[] {
  const [first] = args.positional;
  if (args.positional.length > 1) fail('expected at most one positional argument');
  const pairs =
    first === undefined
      ? []
      : first instanceof Dict
        ? first.entries()
        : iterate(first, args.budget).map((item): [Value, Value] => {
            const [key, value, ...rest] = iterate(item, args.budget);
            if (key === undefined || value === undefined || rest.length > 0) return fail('expected pairs of two items');
            return [key, value];
          });
  return [...pairs, ...args.named];
}

function range(args: Arguments): Sequence {
  const bounds = args.bind('range', 'start', 'stop', 'step').filter((bound) => bound !== undefined);
  const ints = bounds.map((bound) => {
    const int = asInteger(bound);
    return int === undefined ? fail(`range() needs ints, not ${typeName(bound)}`) : Number(int);
  });
  if (ints.length === 0) fail('range() needs an int');
  const [start, stop, step] =
    ints.length === 1 ? ([0, ints[0]!, 1] as const) : ([ints[0]!, ints[1]!, ints[2] ?? 1] as const);
  if (step === 0) fail('range() step must not be zero');
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= MAX_RANGE)) fail(`a range of more than ${MAX_RANGE} items`);
  args.budget.chargeCopy(length);
  const label = step === 1 ? `range(${start}, ${stop})` : `range(${start}, ${stop}, ${step})`;
  return new Sequence(
    'range',
    Array.from({ length }, (_, i) => start + i * step),
    label,
  );
}

class Cycler extends HostObject {
  readonly typeName = 'Cycler';
  private at = 0;

  constructor(private readonly items: readonly Value[]) {
    super();
    if (items.length === 0) fail('a cycler needs items');
  }

  override attribute(name: string): Value | undefined {
    if (name === 'current') return this.items[this.at];
    if (name === 'next') {
      return new Callable('next', () => {
        const item = this.items[this.at]!;
        this.at = (this.at + 1) % this.items.length;
        return item;
      });
    }
    if (name === 'reset') {
      return new Callable('reset', () => {
        this.at = 0;
        return NONE;
      });
    }
    return undefined;
  }
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const MONTHS = [
  ...['January', 'February', 'March', 'April', 'May', 'June'],
  ...['July', 'August', 'September', 'October', 'November', 'December'],
];
const pad = (value: number, width = 2) => String(value).padStart(width, '0');
const hour12 = (date: Date) => date.getHours() % 12 || 12;
const dayOfYear = (date: Date) =>
  Math.round(
    (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - Date.UTC(date.getFullYear(), 0, 1)) / 86_400_000,
  ) + 1;

/** Conversions of C's `strftime` in its own locale. */
const CONVERSIONS: Readonly<Record<string, (date: Date) => string>> = {
  a: (date) => DAYS[date.getDay()]!.slice(0, 3),
  A: (date) => DAYS[date.getDay()]!,
  b: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  B: (date) => MONTHS[date.getMonth()]!,
  d: (date) => pad(date.getDate()),
  D: (date) => `${pad(date.getMonth() + 1)}/${pad(date.getDate())}/${pad(date.getFullYear() % 100)}`,
  e: (date) => String(date.getDate()).padStart(2),
  F: (date) => `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`,
  h: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  H: (date) => pad(date.getHours()),
  I: (date) => pad(hour12(date)),
  j: (date) => pad(dayOfYear(date), 3),
  m: (date) => pad(date.getMonth() + 1),
  M: (date) => pad(date.getMinutes()),
  n: () => '\n',
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  R: (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}`,
  S: (date) => pad(date.getSeconds()),
  t: () => '\t',
  T: (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`,
  w: (date) => String(date.getDay()),
  y: (date) => pad(date.getFullYear() % 100),
  Y: (date) => String(date.getFullYear()),
  '%': () => '%',
};

export function strftime(format: string, date: Date): string {
  return format.replace(/%(-?)(.?)/gsu, (whole, minus: string, conversion: string) => {
    const write = Object.hasOwn(CONVERSIONS, conversion) ? CONVERSIONS[conversion] : undefined;
    if (write === undefined) return fail(`"${whole}" in a date format is not supported`);
    return minus === '' ? write(date) : write(date).replace(/^[0 ]+(?=.)/, '');
  });
}
