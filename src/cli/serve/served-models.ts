import { existsSync } from 'node:fs';
import type { ModelOptions } from '../../gateway/options.js';
import { RocmForgeError } from '../../shared/errors.js';
import { flagOf } from '../../shared/option-table.js';

/** Names of models on a command line. */
export interface NamedModels {
  /** `FILE` or `NAME=FILE`, at least one. */
  readonly models: readonly string[];
  /** Name of the model; only for a single one. */
  readonly modelName?: string | undefined;
  /** Other names of one model; `ALIAS=NAME` for several. */
  readonly modelAlias?: readonly string[] | undefined;
  readonly modelTag?: unknown;
  readonly chatTemplate?: unknown;
  readonly toolParser?: unknown;
  readonly reasoningParser?: unknown;
  readonly pooling?: unknown;
}

/** Options that say how one model's texts are made and read, by which no other model's would be. */
const OF_ONE_MODEL = ['modelName', 'modelTag', 'chatTemplate', 'toolParser', 'reasoningParser', 'pooling'] as const;
/** Those of these options that `--model-option` does not accept. */
const OF_GATEWAYS: ReadonlySet<string> = new Set(['modelName', 'modelTag']);

/**
 * The models that a command line names, in its order; where each file lies is another's to find.
 *
 * @throws RocmForgeError `INVALID_OPTION` for names and options that cannot be meant together
 */
export function servedModels(options: NamedModels): readonly ModelOptions[] {
  const { models: given, modelName, modelAlias = [] } = options;
  // A request without a model's name would mean it, and none could name it.
  if (modelName?.trim() === '') throw invalid('model-name', '--model-name is empty; give a name, or leave it out');
  if (modelAlias.some((alias) => alias.trim() === ''))
    throw invalid('model-alias', '--model-alias is empty; give a name');
  const named = given.map(parsed);
  const [first] = named;
  if (given.length === 1 && first !== undefined) {
    if (modelName !== undefined && first.modelName !== undefined) {
      throw invalid(
        'model-name',
        `the model is called "${first.modelName}" by --model, and "${modelName}" by --model-name`,
      );
    }
    return [{ model: first.model, modelName: modelName ?? first.modelName, modelAlias: options.modelAlias }];
  }
  const ofOne = OF_ONE_MODEL.find((name) => options[name] !== undefined);
  if (ofOne !== undefined) {
    const option = flagOf(ofOne);
    const help = OF_GATEWAYS.has(ofOne)
      ? 'name several as --model NAME=FILE, or start a gateway for each'
      : `of several give --model-option NAME:${option}=VALUE`;
    throw invalid(option, `--${option} applies to one model; ${help}`);
  }
  const aliases = new Map<string, string[]>();
  for (const alias of modelAlias) {
    const [, name = '', of = ''] = /^([^=]+)=(.+)$/s.exec(alias) ?? [];
    if (!named.some(({ modelName }) => modelName === of)) {
      const names = named.flatMap(({ modelName: name }) => name ?? []).join(', ');
      throw invalid(
        'model-alias',
        `--model-alias ${alias} is not ALIAS=NAME of one of the models that are named: ${names}`,
      );
    }
    aliases.set(of, [...(aliases.get(of) ?? []), name]);
  }
  return named.map((one) => ({ ...one, modelAlias: aliases.get(one.modelName ?? '') }));
}

/**
 * The part before the first `=` is a name, unless all of it is a file that exists. A name may have a slash (`OWNER/MODEL`) if a
 * file is behind it.
 */
function parsed(given: string): { readonly model: string; readonly modelName: string | undefined } {
  const [, modelName, model] = /^([^=]+)=(.+)$/s.exec(given) ?? [];
  const isFile = modelName === undefined || model === undefined || existsSync(given);
  if (isFile || (modelName.includes('/') && !existsSync(model))) return { model: given, modelName: undefined };
  return { model, modelName };
}

const invalid = (option: string, message: string) => new RocmForgeError('INVALID_OPTION', message, { option });
