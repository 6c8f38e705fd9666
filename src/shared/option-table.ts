/** A function that reads a value, given what the option's earlier occurrences have, or the choices. */
export type OptionType<T> = ((text: string, before?: never) => T) | readonly T[];

/** Columns that a row may leave out. */
interface Columns<T = unknown> {
  /** Name of the option if it is not that of the row: `kvMemoryBytes` is `--kv-memory`. */
  readonly flag?: string;
  /** Another flag, such as `-o`. */
  readonly short?: string;
  /** Heading in the help. */
  readonly group?: string;
  /** `model`: `--model-option` sets it for one of several models. Default: it is set for all. */
  readonly scope?: 'model';
  /** Reader of the value: an executor, as its argument, or the command alone. Default: the gateway. */
  readonly by?: 'executor' | 'command';
  readonly default?: T;
  /** The default as the help shows it. */
  readonly defaultText?: string;
  /** Part of the value in reports: the length of a text that users write, the host of a URL, which may hold credentials. Default: all. */
  readonly reported?: 'length' | 'host';
  readonly isHidden?: true;
}

/** A row of a table of options: all of one option but its name. */
export interface OptionRow<V> extends Columns {
  /** Placeholder of the value in the help, with its unit: `<ms>`; absent: the option has no value. */
  readonly value?: string;
  readonly type?: OptionType<V>;
  /** Help of `--NAME`, and of `--no-NAME`. At least one of them is there. */
  readonly help?: string;
  readonly helpOff?: string;
  /** Only a type: the value once it is parsed. */
  readonly parsed?: V;
}

/** Rows by the names of their values in code: `maxQueuedTokens` is `--max-queued-tokens`. */
export type OptionRows = Readonly<Record<string, OptionRow<unknown>>>;

/** The help group of options that a command cannot do without. */
export const REQUIRED = 'Required:';

type Value<Row> = Row extends { readonly parsed?: infer V } ? V : never;

/** Values of a table's options, once they are parsed: those without a default may be missing. */
export type OptionValues<Rows> = {
  readonly [K in keyof Rows as undefined extends Value<Rows[K]> ? never : K]: Value<Rows[K]>;
} & {
  readonly [K in keyof Rows as undefined extends Value<Rows[K]> ? K : never]?: Value<Rows[K]>;
};

/** Some of the values of a table's options. */
export type GivenValues<Rows> = { readonly [K in keyof Rows]?: Value<Rows[K]> | undefined };

/** An option with a value, and no default. */
export const option = <const T, const C extends Columns = object>(
  value: string,
  type: OptionType<T>,
  help: string,
  columns?: C,
) => ({ value, type, help, ...columns }) as OptionRow<T | undefined> & C;

/** An option with a value that a command cannot do without. */
export const required = <const T, const C extends Columns = object>(
  value: string,
  type: OptionType<T>,
  help: string,
  columns?: C,
) => ({ value, type, help, group: REQUIRED, ...columns }) as OptionRow<T> & C;

/** An option with a value and a default. */
export const preset = <const T, const C extends Columns = object>(
  value: string,
  type: OptionType<T>,
  otherwise: NoInfer<T>,
  help: string,
  columns?: C,
) => ({ value, type, default: otherwise, help, ...columns }) as OptionRow<T> & C;

/** `--NAME`: true, or missing. */
export const flag = <const C extends Columns = object>(help: string, columns?: C) =>
  ({ help, ...columns }) as OptionRow<boolean | undefined> & C;

/** `--NAME`: true, else false. */
export const flagOrFalse = (help: string) => ({ help, default: false }) as OptionRow<boolean>;

/** `--no-NAME`: false, else true. */
export const flagOff = <const C extends Columns = object>(helpOff: string, columns?: C) =>
  ({ helpOff, default: true, ...columns }) as OptionRow<boolean> & C;

/** `--NAME`, `--no-NAME`, or missing. */
export const flagOnOff = <const C extends Columns = object>(help: string, helpOff: string, columns?: C) =>
  ({ help, helpOff, ...columns }) as OptionRow<boolean | undefined> & C;

/** Rows that the help lists under one heading. */
export const grouped = <R extends OptionRows>(group: string, rows: R): R =>
  Object.fromEntries(Object.entries(rows).map(([name, row]) => [name, { ...row, group }])) as R;

/** The flag of an option without dashes: `max-queued-tokens`. */
export const flagOf = (name: string, row?: OptionRow<unknown>): string =>
  row?.flag ?? name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

/** The rows that a condition holds for. */
export const rowsWhere = (rows: OptionRows, condition: (row: OptionRow<unknown>) => boolean): OptionRows =>
  Object.fromEntries(Object.entries(rows).filter(([, row]) => condition(row)));

/** The values of a table's options among others. */
export const valuesOf = <R extends OptionRows, G extends object>(rows: R, given: G): Pick<G, keyof R & keyof G> =>
  Object.fromEntries(Object.entries(given).filter(([name]) => name in rows)) as Pick<G, keyof R & keyof G>;

/** Given values, and the defaults of the options that have none. */
export function withDefaults<R extends OptionRows, G extends GivenValues<R>>(rows: R, given: G): G & OptionValues<R> {
  const missing = Object.entries(rows).filter(
    ([name, row]) => row.default !== undefined && given[name as keyof G] === undefined,
  );
  return { ...given, ...Object.fromEntries(missing.map(([name, row]) => [name, row.default])) } as G & OptionValues<R>;
}
