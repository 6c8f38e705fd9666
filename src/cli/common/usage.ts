import { type Command, Help } from 'commander';
import { REQUIRED } from '../../shared/option-table.js';

const HTTP_OR_GRPC = '--http-listen HOST:PORT for HTTP, or --listen HOST:PORT for gRPC';

/**
 * Option names of llama.cpp's, vLLM's and Ollama's programs, and common draft tokens, with the options that do the same here. Of those
 * listed for a name the first that the command has is suggested.
 */
const EQUIVALENTS: Readonly<Record<string, readonly string[]>> = {
  '-m': ['--model'],
  '--hf-repo': ['--model hf.co/OWNER/REPOSITORY'],
  '-hf': ['--model hf.co/OWNER/REPOSITORY'],
  '--port': [HTTP_OR_GRPC, '--listen HOST:PORT', '--address HOST:PORT'],
  '--host': [HTTP_OR_GRPC, '--listen HOST:PORT', '--address HOST:PORT'],
  '--bind': ['--listen HOST:PORT'],
  '--url': ['--address HOST:PORT'],
  '--base-url': ['--address HOST:PORT'],
  '--http-port': ['--http-listen HOST:PORT'],
  '--api-key': ['--token-file FILE'],
  '--token': ['--token-file FILE'],
  '--alias': ['--model-alias', '--model-name'],
  '--served-model-name': ['--model-name'],
  '-c': ['--max-context', '--context'],
  '--ctx-size': ['--max-context', '--context'],
  '--num-ctx': ['--max-context', '--context'],
  '--context-length': ['--max-context', '--context'],
  '--max-model-len': ['--max-context', '--context'],
  '-np': ['--max-sequences', '--sequences'],
  '--parallel': ['--max-sequences', '--sequences'],
  '--max-num-seqs': ['--max-sequences', '--sequences'],
  '--max-num-batched-tokens': ['--max-step-tokens'],
  '-b': ['--max-step-tokens'],
  '--batch-size': ['--max-step-tokens'],
  '-ctk': ['--kv-cache-type'],
  '--cache-type-k': ['--kv-cache-type'],
  '--cache-type-v': ['--kv-cache-type'],
  '--kv-cache-dtype': ['--kv-cache-type'],
  '--gpu-memory-utilization': ['--kv-memory'],
  '-ngl': ['--device'],
  '--gpu-layers': ['--device'],
  '--enable-auto-tool-choice': ['--tool-parser'],
  '--n-gpu-layers': ['--device'],
  '-ts': ['--tensor-split'],
  '-sm': ['--split'],
  '--split-mode': ['--split'],
  '-tp': ['--gpus 0,1 --split tensor'],
  '--tensor-parallel-size': ['--gpus 0,1 --split tensor'],
  '-pp': ['--gpus 0,1 --split layer'],
  '--pipeline-parallel-size': ['--gpus 0,1 --split layer'],
  '-dp': ['--replicas'],
  '--data-parallel-size': ['--replicas'],
  '-t': ['--threads'],
  '--chat-template-file': ['--chat-template'],
  '--reasoning-format': ['--reasoning-parser'],
  '--tool-call-parser': ['--tool-parser'],
  '--pooler-config': ['--pooling'],
  '--override-pooler-config': ['--pooling'],
  '--keep-alive': ['--idle-unload'],
  '--models-max': ['--max-loaded-models'],
  '--no-models-autoload': ['--load on-command'],
  '--ssl-certfile': ['--tls-cert'],
  '--ssl-cert-file': ['--tls-cert'],
  '--ssl-keyfile': ['--tls-key'],
  '--ssl-key-file': ['--tls-key'],
  '--allowed-origins': ['--cors-origins'],
  '--metrics': ['--metrics-listen HOST:PORT'],
  '--slots': ['--http-slots'],
  '-p': ['--prompt', '--prompt-tokens'],
  '--n-predict': ['--max-tokens'],
  '--num-predict': ['--max-tokens'],
  '--predict': ['--max-tokens'],
  '--temp': ['--temperature'],
  '--repeat-penalty': ['--repetition-penalty'],
  '--system-prompt': ['--system'],
  '-sys': ['--system'],
  '--duration': ['--seconds'],
  '--concurrency': ['--clients'],
  '--max-concurrency': ['--clients'],
  '--num-prompts': ['--requests'],
  '--request-rate': ['--rate'],
  '--quantization': ['--type'],
};

/** Commands of the same programs, with what does the same here. */
const COMMAND_EQUIVALENTS: ReadonlyMap<string, string> = new Map([
  ['run', 'chat --model MODEL'],
  ['start', 'serve --model MODEL'],
  ['complete', 'generate'],
  ['show', 'inspect MODEL'],
  ['download', 'pull MODEL'],
  ['list', 'admin --address unix:PATH --models'],
  ['ls', 'admin --address unix:PATH --models'],
  ['ps', 'admin --address unix:PATH --models'],
  ['stop', 'admin --address unix:PATH --unload-model NAME'],
]);

/** The same option under this program's name; undefined where the command has none. */
function equivalentOf(flag: string, command: Command): string | undefined {
  const name = flag.replace(/=.*$/s, '');
  const known = new Set(command.options.map(({ long }) => long));
  return EQUIVALENTS[name]?.find((option) => known.has(option.replace(/ .*$/, '')));
}

/** Commander's text of an error, with this program's suggestion in place of the nearest spelling where there is one. */
function explained(text: string, command: Command): string {
  const [line, kind, name = ''] = /^error: unknown (option|command) '(.*)'\n/.exec(text) ?? [];
  const suggestion = kind === 'command' ? COMMAND_EQUIVALENTS.get(name) : equivalentOf(name, command);
  return line === undefined || suggestion === undefined ? text : `${line}(Did you mean ${suggestion}?)\n`;
}

/**
 * Has all commands of a program name the first mistake of a command line in this order: an unknown option, an argument that the
 * command does not take, a missing option. Each error ends with the help that lists the command's own options.
 */
export function checkUsage(program: Command): void {
  inheritUsage(program, program.name());
  program.hook('preAction', (_, command) => {
    const argument = command.args[command.registeredArguments.length];
    if (argument !== undefined) command.error(`error: ${unexpected(argument, command)}`);
    const missing = command.options.find(
      (option) => option.helpGroupHeading === REQUIRED && command.getOptionValue(option.attributeName()) === undefined,
    );
    if (missing !== undefined) command.error(`error: required option '${missing.flags}' not specified`);
  });
}

/** Help with the required options first and the group of `--help` last; the others stay in their order. */
const HELP: Partial<Help> = {
  groupItems(all, visible, groupOf) {
    const rank = (name: string): number => (name === REQUIRED ? 0 : name === 'Options:' ? 2 : 1);
    const groups = Help.prototype.groupItems.call(this, all, visible, groupOf as never) as Map<string, typeof all>;
    return new Map([...groups].sort(([a], [b]) => rank(a) - rank(b)));
  },
};

function inheritUsage(command: Command, name: string): void {
  command
    .allowExcessArguments()
    .configureHelp(HELP)
    .configureOutput({ outputError: (text, write) => write(explained(text, command)) })
    .showHelpAfterError(`(${name} --help lists ${command.options.length > 1 ? 'its options' : 'the commands'})`);
  for (const child of command.commands) inheritUsage(child, `${name} ${child.name()}`);
}

/** An argument too many; a model that lacks its option gets a hint. */
function unexpected(argument: string, command: Command): string {
  const takesModel = command.options.some(({ long }) => long === '--model');
  const isModel = /\.gguf$|^hf\.co\//i.test(argument);
  return `unexpected argument '${argument}'${takesModel && isModel ? `; name a model with --model ${argument}` : ''}`;
}
