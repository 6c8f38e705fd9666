import { type Command, Option } from 'commander';
import { RocmForgeError } from '../../shared/errors.js';
import {
  address,
  clientOptions,
  decimal,
  deviceOptions,
  modelOptions,
  seed,
  splitOptions,
  TOKEN_HELP,
  testOptions,
  texts,
  wholeNumber,
} from '../common/options.js';

const MODEL_HELP =
  'GGUF file to load for this command, or hf.co/OWNER/REPOSITORY to download; with --address: name of a served model';

/**
 * `generate` and `chat`.
 *
 * @param command adds a command with options that several commands share
 */
export function addTextCommands(command: (name: string, options: readonly Option[]) => Command): void {
  command('generate', [...clientOptions, ...modelOptions, ...deviceOptions, ...splitOptions, ...testOptions])
    .description('generate text for one prompt')
    .addHelpText('after', TOKEN_HELP)
    .optionsGroup('Model:')
    .option('--model <file>', MODEL_HELP)
    .addOption(new Option('--address <address>', 'HOST:PORT or unix:PATH of a running gateway').argParser(address))
    .argument('[prompt]', 'prompt; - reads it from stdin')
    .optionsGroup('Prompt:')
    .option('--prompt <text>', 'prompt (instead of the argument)')
    .option('--chat', 'send the prompt as a user message through the chat template', false)
    .option('--system <text>', 'with --chat: system message')
    .optionsGroup('Sampling:')
    .addOption(new Option('--max-tokens <count>', 'most tokens to generate').argParser(wholeNumber(1)).default(128))
    .addOption(new Option('--temperature <t>', 'sampling temperature; 0: greedy decoding').argParser(decimal))
    .addOption(new Option('--top-k <count>', 'sample from the k most likely tokens; 0: all').argParser(wholeNumber(0)))
    .addOption(
      new Option('--top-p <p>', 'nucleus sampling: probability mass to sample from, above 0 to 1').argParser(decimal),
    )
    .addOption(
      new Option('--min-p <p>', 'least probability, relative to the most likely token, 0 to 1').argParser(decimal),
    )
    .addOption(new Option('--seed <number>', 'random seed (default: drawn)').argParser(seed))
    .addOption(
      new Option('--repetition-penalty <factor>', 'penalty of tokens in prompt and output; 1: none').argParser(decimal),
    )
    .addOption(
      new Option('--frequency-penalty <logit>', 'penalty per occurrence in the output; 0: none').argParser(decimal),
    )
    .addOption(new Option('--presence-penalty <logit>', 'penalty of tokens in the output; 0: none').argParser(decimal))
    .addOption(new Option('--stop <text>', 'stop sequence, not part of the output; may be repeated').argParser(texts))
    .addOption(new Option('-n, --n <count>', 'completions of the prompt').argParser(wholeNumber(1)).default(1))
    .optionsGroup('Output:')
    .addOption(
      new Option(
        '--logprobs <count>',
        'with --json: log probabilities of each token and of this many most likely ones',
      ).argParser(wholeNumber(0)),
    )
    .option('--json', 'print one JSON object per line, with token ids', false)
    .option('--stats', 'print tokens/s and time to first token on stderr', false)
    .action(async (prompt, options) => {
      requireTarget(options);
      await pullFirst(options);
      const { generate } = await import('./generate.js');
      await generate({ ...options, prompt: promptOf(prompt, options.prompt) });
    });

  command('chat', [...clientOptions, ...modelOptions, ...deviceOptions])
    .description('chat with a model in the terminal')
    .addHelpText('after', TOKEN_HELP)
    .optionsGroup('Model:')
    .option('--model <file>', MODEL_HELP)
    .addOption(new Option('--address <address>', 'HOST:PORT or unix:PATH of a running gateway').argParser(address))
    .optionsGroup('Conversation:')
    .option('--system <text>', 'system message')
    .option('--tools <file>', 'tools that the model may call: a JSON list in OpenAI’s format')
    .addOption(new Option('--max-tokens <count>', 'most tokens per response').argParser(wholeNumber(1)))
    .addOption(new Option('--temperature <t>', 'sampling temperature; 0: greedy decoding').argParser(decimal))
    .addOption(new Option('--seed <number>', 'random seed (default: drawn)').argParser(seed))
    .action(async (options) => {
      requireTarget(options);
      await pullFirst(options);
      const { chat } = await import('../chat/chat.js');
      await chat(options);
    });
}

/** @throws RocmForgeError `INVALID_OPTION` unless there is exactly one prompt */
function promptOf(argument: string | undefined, option: string | undefined): string {
  const prompt = argument ?? option;
  if (prompt === undefined || (argument !== undefined && option !== undefined)) {
    throw new RocmForgeError('INVALID_OPTION', 'give one prompt, as the argument or with --prompt; - reads stdin');
  }
  return prompt;
}

/** @throws RocmForgeError `INVALID_OPTION` unless a command is given a model or a gateway's address */
export function requireTarget(options: { model?: string; address?: string }): void {
  if (options.model === undefined && options.address === undefined) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      'give --model, to load a model for this command, or --address, to use a running gateway',
    );
  }
  // A command that writes text to a terminal logs only what went wrong.
  process.env.ROCMFORGE_LOG_LEVEL ??= 'warn';
}

/** Downloads a model that `--model` names on a hub, and sets the option to its path. */
async function pullFirst(options: { model?: string; address?: string }): Promise<void> {
  if (options.model === undefined || options.address !== undefined) return;
  const { localModel } = await import('../hub/pull.js');
  options.model = await localModel(options.model);
}
