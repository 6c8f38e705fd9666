import type { Command, Option } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

interface Completed {
  readonly words: readonly string[];
  readonly description: string;
  readonly options: readonly Option[];
}

/** A script by which a shell completes commands, options and the values of those that have a list, as `program` has them. */
export function completionScript(shell: Shell, program: Command): string {
  const commands = commandsOf(program, []);
  return { bash, zsh, fish }[shell](program.name(), commands);
}

/** Every command below one, by the words that name it. */
function commandsOf(command: Command, words: readonly string[]): Completed[] {
  const visible = command
    .createHelp()
    .visibleCommands(command)
    .filter((one) => one.name() !== 'help');
  return [
    { words, description: command.description(), options: command.createHelp().visibleOptions(command) },
    ...visible.flatMap((one) => commandsOf(one, [...words, one.name()])),
  ];
}

const flagsOf = ({ options }: Completed): string[] =>
  options.flatMap(({ long, short }) => [long, short].filter((flag) => flag !== undefined && flag !== null));
const childrenOf = (commands: readonly Completed[], { words }: Completed): string[] =>
  commands
    .filter((one) => one.words.length === words.length + 1 && words.every((word, i) => one.words[i] === word))
    .map((one) => one.words.at(-1) as string);
const takesFile = ({ flags }: Option): boolean => /<(file|folder)(\.\.\.)?>/.test(flags);

function bash(name: string, commands: readonly Completed[]): string {
  const values = new Map(
    commands.flatMap(({ options }) =>
      options.flatMap(({ long, argChoices }) => (long && argChoices ? [[long, argChoices.join(' ')] as const] : [])),
    ),
  );
  return `_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" command="" word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$command $word" in
${commands
  .filter(({ words }) => words.length > 0)
  .map(({ words }) => `      "${[...words.slice(0, -1)].join(' ')} ${words.at(-1)}") command="${words.join(' ')}" ;;`)
  .join('\n')}
    esac
  done
  case "$previous" in
${[...values].map(([flag, list]) => `    ${flag}) COMPREPLY=($(compgen -W "${list}" -- "$current")); return ;;`).join('\n')}
    ${[...new Set(commands.flatMap(({ options }) => options.filter(takesFile).map(({ long }) => long)))].join('|')}) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "$command" in
${commands.map((one) => `    "${one.words.join(' ')}") COMPREPLY=($(compgen -W "${[...childrenOf(commands, one), ...flagsOf(one)].join(' ')}" -- "$current")) ;;`).join('\n')}
  esac
}
complete -o default -F _${name} ${name}
`;
}

/** zsh runs bash's completions. */
function zsh(name: string, commands: readonly Completed[]): string {
  return `#compdef ${name}\nautoload -U +X bashcompinit && bashcompinit\n${bash(name, commands)}`;
}

function fish(name: string, commands: readonly Completed[]): string {
  const quoted = (text: string): string => `'${text.replaceAll(/['\\]/g, '\\$&')}'`;
  const lines = commands.flatMap((one) => {
    const seen = one.words.map((word) => `__fish_seen_subcommand_from ${word}`);
    const children = commands.filter(
      ({ words }) => words.length === one.words.length + 1 && one.words.every((word, i) => words[i] === word),
    );
    const none =
      children.length > 0
        ? [`not __fish_seen_subcommand_from ${children.map(({ words }) => words.at(-1)).join(' ')}`]
        : [];
    const when = [...seen, ...none].join('; and ');
    const condition = when === '' ? '' : ` -n ${quoted(when)}`;
    return [
      ...children.map(
        ({ words, description }) => `complete -c ${name} -f${condition} -a ${words.at(-1)} -d ${quoted(description)}`,
      ),
      ...one.options.map((option) => {
        const names = `${option.long ? ` -l ${option.long.slice(2)}` : ''}${option.short ? ` -s ${option.short.slice(1)}` : ''}`;
        const value = option.argChoices
          ? ` -x -a ${quoted(option.argChoices.join(' '))}`
          : option.required
            ? takesFile(option)
              ? ' -r'
              : ' -x'
            : ' -f';
        return `complete -c ${name}${condition}${names}${value} -d ${quoted(option.description)}`;
      }),
    ];
  });
  return `${lines.join('\n')}\n`;
}
