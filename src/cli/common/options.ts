import { type Command, Option } from 'commander';
import type { MEMORY_OPTIONS } from '../../gateway/option-table.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { DEVICE_OPTIONS, SPLIT_OPTIONS, TEST_OPTIONS } from '../../shared/executor-options.js';
import {
  flagOf,
  grouped,
  type OptionRow,
  type OptionRows,
  type OptionValues,
  option,
} from '../../shared/option-table.js';
import { text } from '../../shared/option-types.js';

/** An option whose value has the name of its row. */
class NamedOption extends Option {
  constructor(
    private readonly valueName: string,
    flags: string,
    help: string,
  ) {
    super(flags, help);
  }

  override attributeName(): string {
    return this.valueName;
  }
}

/** A command with the options of tables, in their order. */
export function addOptions(command: Command, ...tables: readonly OptionRows[]): Command {
  for (const [name, row] of tables.flatMap((rows) => Object.entries(rows))) {
    for (const added of optionsOf(name, row)) command.addOption(added);
  }
  return command;
}

/** An option; two if it has a `--no-` form beside the other. */
function optionsOf(name: string, row: OptionRow<unknown>): readonly Option[] {
  const { short, value, type, help, helpOff, group, defaultText, isHidden } = row;
  const long = flagOf(name, row);
  const flags = `${short === undefined ? '' : `${short}, `}--${long}${value === undefined ? '' : ` ${value}`}`;
  const options = [
    ...(help === undefined ? [] : [new NamedOption(name, flags, help)]),
    ...(helpOff === undefined ? [] : [new NamedOption(name, `--no-${long}`, helpOff)]),
  ];
  for (const one of options) {
    if (typeof type === 'function') one.argParser(type as (text: string) => unknown);
    else if (type !== undefined) one.choices(type as readonly string[]);
    if (row.default !== undefined) one.default(row.default, defaultText);
    if (group !== undefined) one.helpGroup(group);
    if (isHidden) one.hideHelp();
  }
  return options;
}

/** Options by which a command authenticates to a gateway; a bearer token comes in `ROCMFORGE_TOKEN`. */
export const CLIENT_OPTIONS = grouped('Gateway:', {
  ca: option('<file>', text, 'use TLS; authorities that sign the certificate of the gateway (PEM)'),
  cert: option('<file>', text, 'client certificate (PEM), if the gateway requires one'),
  key: option('<file>', text, 'private key of --cert (PEM)'),
});

/** Help that follows the options of a command which calls a gateway. */
export const TOKEN_HELP =
  '\nThe environment variable ROCMFORGE_TOKEN holds the bearer token that is sent to the gateway at --address.';

/** Values of {@link SPLIT_OPTIONS}. */
export type SplitOptionValues = OptionValues<typeof SPLIT_OPTIONS>;

/** Values of options of commands that serve a model themselves. */
export type ModelOptionValues = OptionValues<
  typeof MEMORY_OPTIONS & typeof DEVICE_OPTIONS & typeof SPLIT_OPTIONS & typeof TEST_OPTIONS
>;

/**
 * @param otherwise what several GPUs are where nothing is split over them
 * @throws RocmForgeError `INVALID_OPTION` for options that need others
 */
export function checkSplit(
  { gpus = [], split, tensorSplit }: SplitOptionValues,
  otherwise: 'replicas' | 'nothing' = 'nothing',
): void {
  const refuse = (option: string, message: string): never => {
    throw new RocmForgeError('INVALID_OPTION', message, { option });
  };
  if (split !== 'layer' && tensorSplit !== undefined) refuse('tensor-split', '--tensor-split requires --split layer');
  if (split === undefined && gpus.length > 1 && otherwise === 'nothing')
    refuse('gpus', '--gpus with several GPUs requires --split layer or --split tensor');
  if (split !== undefined && gpus.length < 2)
    refuse('split', `--split ${split} requires several GPUs, such as --gpus 0,1`);
  if (tensorSplit !== undefined && tensorSplit.length !== gpus.length) {
    refuse('tensor-split', `--tensor-split has ${tensorSplit.length} shares for ${gpus.length} GPUs`);
  }
}
