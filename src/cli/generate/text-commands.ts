import type { Command } from 'commander';
import { MEMORY_OPTIONS } from '../../gateway/option-table.js';
import { RocmForgeError } from '../../shared/errors.js';
import { DEVICE_OPTIONS, SPLIT_OPTIONS, TEST_OPTIONS } from '../../shared/executor-options.js';
import { preferLevel } from '../../shared/log-levels.js';
import {
  flagOrFalse,
  type GivenValues,
  grouped,
  type OptionValues,
  option,
  preset,
} from '../../shared/option-table.js';
import { address, decimal, seed, text, texts, wholeNumber } from '../../shared/option-types.js';
import { addOptions, CLIENT_OPTIONS, TOKEN_HELP } from '../common/options.js';

/** The model, or the gateway, of a command. */
export const TARGET_OPTIONS = grouped('Model:', {
  model: option(
    '<file>',
    text,
    'GGUF file to load for this command, or hf.co/OWNER/REPOSITORY to download; with --address: name of a served model',
  ),
  address: option('<address>', address, 'HOST:PORT or unix:PATH of a running gateway'),
});

const TEMPERATURE = option('<t>', decimal, 'sampling temperature; 0: greedy decoding');
const SEED = option('<number>', seed, 'random seed (default: drawn)');

export const GENERATE_OPTIONS = {
  ...CLIENT_OPTIONS,
  ...MEMORY_OPTIONS,
  ...DEVICE_OPTIONS,
  ...SPLIT_OPTIONS,
  ...TEST_OPTIONS,
  ...TARGET_OPTIONS,
  ...grouped('Prompt:', {
    prompt: option('<text>', text, 'prompt (instead of the argument)'),
    chat: flagOrFalse('send the prompt as a user message through the chat template'),
    system: option('<text>', text, 'with --chat: system message'),
  }),
  ...grouped('Sampling:', {
    maxTokens: preset('<count>', wholeNumber(1), 128, 'most tokens to generate'),
    temperature: TEMPERATURE,
    topK: option('<count>', wholeNumber(0), 'sample from the k most likely tokens; 0: all'),
    topP: option('<p>', decimal, 'nucleus sampling: probability mass to sample from, above 0 to 1'),
    minP: option('<p>', decimal, 'least probability, relative to the most likely token, 0 to 1'),
    seed: SEED,
    repetitionPenalty: option('<factor>', decimal, 'penalty of tokens in prompt and output; 1: none'),
    frequencyPenalty: option('<logit>', decimal, 'penalty per occurrence in the output; 0: none'),
    presencePenalty: option('<logit>', decimal, 'penalty of tokens in the output; 0: none'),
    stop: option('<text>', texts, 'stop sequence, not part of the output; may be repeated'),
    n: preset('<count>', wholeNumber(1), 1, 'completions of the prompt', { short: '-n' }),
  }),
  ...grouped('Output:', {
    logprobs: option(
      '<count>',
      wholeNumber(0),
      'with --json: log probabilities of each token and of this many most likely ones',
    ),
    json: flagOrFalse('print one JSON object per line, with token ids'),
    stats: flagOrFalse('print tokens/s and time to first token on stderr'),
  }),
};

export const CHAT_OPTIONS = {
  ...CLIENT_OPTIONS,
  ...MEMORY_OPTIONS,
  ...DEVICE_OPTIONS,
  ...TARGET_OPTIONS,
  ...grouped('Conversation:', {
    system: option('<text>', text, 'system message'),
    tools: option('<file>', text, 'tools that the model may call: a JSON list in OpenAI’s format'),
    maxTokens: option('<count>', wholeNumber(1), 'most tokens per response'),
    temperature: TEMPERATURE,
    seed: SEED,
  }),
};

/** `generate` and `chat`. */
export function addTextCommands(program: Command): void {
  addOptions(program.command('generate'), GENERATE_OPTIONS)
    .description('generate text for one prompt')
    .addHelpText('after', TOKEN_HELP)
    .argument('[prompt]', 'prompt; - reads it from stdin')
    .action(async (prompt: string | undefined, options: OptionValues<typeof GENERATE_OPTIONS>) => {
      requireTarget(options);
      const local = await withLocalModel(options);
      const { generate } = await import('./generate.js');
      await generate({ ...local, prompt: promptOf(prompt, options.prompt) });
    });

  addOptions(program.command('chat'), CHAT_OPTIONS)
    .description('chat with a model in the terminal')
    .addHelpText('after', TOKEN_HELP)
    .action(async (options: OptionValues<typeof CHAT_OPTIONS>) => {
      requireTarget(options);
      const local = await withLocalModel(options);
      const { chat } = await import('../chat/chat.js');
      await chat(local);
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
function requireTarget(options: GivenValues<typeof TARGET_OPTIONS>): void {
  if (options.model === undefined && options.address === undefined) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      'give --model, to load a model for this command, or --address, to use a running gateway',
    );
  }
  // A command that writes text to a terminal logs only what went wrong.
  preferLevel('warn');
}

/** The options, with the path of a model that `--model` names on a hub, which is downloaded. */
async function withLocalModel<O extends GivenValues<typeof TARGET_OPTIONS>>(options: O): Promise<O> {
  if (options.model === undefined || options.address !== undefined) return options;
  const { localModel } = await import('../hub/pull.js');
  return { ...options, model: await localModel(options.model) };
}
