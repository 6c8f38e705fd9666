import { SERVE_OPTIONS } from '../../gateway/option-table.js';
import { type GatewayOptions, type ModelOptions, OWN_OPTIONS } from '../../gateway/options.js';
import { RocmForgeError } from '../../shared/errors.js';
import { flagOf } from '../../shared/option-table.js';
import { type CommandOptions, gatewayOptions } from './gateway-options.js';

/** An option of a command, as commander describes it. */
export interface KnownOption {
  readonly long?: string | undefined;
  /** True if it takes a value. */
  readonly required: boolean;
  readonly parseArg?: ((value: string, previous: undefined) => unknown) | undefined;
  attributeName(): string;
}

/** Flags of the options of `serve` that `--model-option` takes. */
const TAKEN = Object.entries(SERVE_OPTIONS).flatMap(([name, row]) => ('scope' in row ? [flagOf(name, row)] : []));

/**
 * Reads `--model-option NAME:OPTION=VALUE`.
 *
 * @param names of the models that have one, in any order
 * @param known the options of the command, whose values are read as if they were given there
 * @returns for each model that has options of its own, their values by attribute name
 * @throws RocmForgeError `INVALID_OPTION`
 */
export function readModelOptions(
  given: readonly string[],
  names: readonly string[],
  known: readonly KnownOption[],
): ReadonlyMap<string, Readonly<Record<string, unknown>>> {
  const read = new Map<string, Record<string, unknown>>();
  for (const one of given) {
    const refuse = (why: string): never => {
      throw new RocmForgeError('INVALID_OPTION', `--model-option ${one}: ${why}`, { option: 'model-option' });
    };
    // A name may hold colons, too.
    const name = names.filter((candidate) => one.startsWith(`${candidate}:`)).sort((a, b) => b.length - a.length)[0];
    if (name === undefined)
      return refuse(`it names none of the models; use NAME:OPTION=VALUE with one of ${names.join(', ')}`);
    const [, flag = '', value] = /^([^=]*)(?:=(.*))?$/s.exec(one.slice(name.length + 1)) ?? [];
    const option = TAKEN.includes(flag) ? known.find(({ long }) => long === `--${flag}`) : undefined;
    if (option === undefined) return refuse(`"${flag}" is not an option of one model; use one of ${TAKEN.join(', ')}`);
    if (option.required !== (value !== undefined))
      refuse(option.required ? `${flag} needs a value` : `${flag} takes no value`);
    const values = read.get(name) ?? {};
    if (option.attributeName() in values) refuse(`${flag} is given twice for "${name}"`);
    values[option.attributeName()] = value === undefined ? true : readValue(option, value, refuse);
    read.set(name, values);
  }
  return read;
}

function readValue({ parseArg }: KnownOption, value: string, refuse: (why: string) => never): unknown {
  try {
    return parseArg === undefined ? value : parseArg(value, undefined);
  } catch (error) {
    return refuse((error as Error).message);
  }
}

/**
 * Models with options of their own.
 *
 * @param named the models of the command line
 * @param options of the command
 * @param known the options that it has
 * @throws RocmForgeError `INVALID_OPTION` as {@link readModelOptions} and {@link gatewayOptions}
 */
export function withOwnOptions(
  named: readonly ModelOptions[],
  options: CommandOptions,
  known: readonly KnownOption[],
): readonly ModelOptions[] {
  const names = named.flatMap(({ modelName }) => modelName ?? []);
  const read = readModelOptions(options.modelOption ?? [], names, known);
  return named.map((model) => {
    const values = model.modelName === undefined ? undefined : read.get(model.modelName);
    if (values === undefined) return model;
    const others = named.filter((other) => other !== model);
    const all = gatewayOptions({ ...options, ...values, model: model.model, moreModels: others });
    const own = Object.fromEntries(OWN_OPTIONS.map((name) => [name, all[name]])) as Partial<GatewayOptions>;
    return { ...model, own };
  });
}
