import { type ToolChoice, ToolChoiceMode } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { ToolParser } from './answer-format.js';
import type { OfferedTool } from './events.js';

/**
 * Form of the arguments of a call: a JSON object, or, as the format of that name has it, each between tags, a string
 * as it is and what else is as JSON.
 */
export type ArgumentsForm = 'json' | 'glm' | 'qwen3-coder' | 'seed-oss';

/** One function's call as text: `prefix`, the arguments, `suffix`. */
export interface ToolRule {
  /** The function. */
  readonly name: string;
  /** The name of the grammar's rule for its arguments: `[a-z0-9_]`, and of no other function of the turn. */
  readonly argumentsRule: string;
  /** The JSON Schema that the rule stands for; empty: an empty object. */
  readonly parametersJson: string;
  readonly prefix: string;
  readonly suffix: string;
}

/**
 * The calls of a turn as plain data, for whoever makes a grammar of it and of the schemas:
 * `prefix call (separator call)* suffix`, each call one of `tools`.
 */
export interface ToolGrammar {
  readonly prefix: string;
  readonly separator: string;
  readonly suffix: string;
  readonly tools: readonly ToolRule[];
  readonly argumentsForm: ArgumentsForm;
  /** True if there must be a call; else they are one way to go on, and any text without the beginning of one the other. */
  readonly isRequired: boolean;
  /** True if there may be several calls. */
  readonly isRepeated: boolean;
}

export interface ToolGrammarOptions {
  readonly format: ToolParser;
  /** The chat template: where a format has two forms, the one that it writes is the one that the model was trained on. */
  readonly template: string;
  readonly toolChoice: ToolChoice | undefined;
  readonly isParallel: boolean;
}

/**
 * The calls that a turn may have, or must. Markup of it may be special tokens of a model: who makes a grammar of it must let
 * them in.
 *
 * @returns undefined where the turn may have none
 */
export function toolGrammar(
  tools: readonly OfferedTool[],
  { format, template, toolChoice, isParallel }: ToolGrammarOptions,
): ToolGrammar | undefined {
  const choice = toolChoice?.choice;
  if (tools.length === 0 || choice?.value === ToolChoiceMode.NONE) return undefined;
  const called = choice?.$case === 'function' ? choice.value : undefined;
  const { prefix = '', separator, suffix = '', argumentsForm = 'json', endsTurn, call } = callTextOf(format, template);
  const rules = tools.map(({ name, parametersJson }, i): ToolRule => {
    const [before, after] = call(name);
    return { name, argumentsRule: `arguments_${i}`, parametersJson, prefix: before, suffix: after };
  });
  return {
    prefix,
    separator,
    suffix,
    argumentsForm,
    tools: called === undefined ? rules : rules.filter(({ name }) => name === called),
    isRequired: called !== undefined || choice?.value === ToolChoiceMode.REQUIRED,
    // A function that is demanded is called once, as OpenAI has it.
    isRepeated: isParallel && called === undefined && !endsTurn,
  };
}

/** Markup that a format writes around calls, and around one of a function. */
interface CallText {
  readonly prefix?: string;
  readonly separator: string;
  readonly suffix?: string;
  readonly argumentsForm?: ArgumentsForm;
  /** True if what ends a call ends the turn. */
  readonly endsTurn?: boolean;
  call(name: string): readonly [prefix: string, suffix: string];
}

const TEXTS: Readonly<Record<ToolParser, CallText>> = {
  hermes: {
    separator: '\n',
    call: (name) => [`<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": `, '}\n</tool_call>'],
  },
  llama3: { separator: '; ', call: (name) => [`{"name": ${JSON.stringify(name)}, "parameters": `, '}'] },
  mistral: { separator: '', call: (name) => [`[TOOL_CALLS]${name}[ARGS]`, ''] },
  glm: { separator: '\n', argumentsForm: 'glm', call: (name) => [`<tool_call>${name}\n`, '</tool_call>'] },
  'qwen3-coder': {
    separator: '\n',
    argumentsForm: 'qwen3-coder',
    call: (name) => [`<tool_call>\n<function=${name}>\n`, '</function>\n</tool_call>'],
  },
  'seed-oss': {
    separator: '\n',
    argumentsForm: 'seed-oss',
    call: (name) => [`<seed:tool_call>\n<function=${name}>\n`, '</function>\n</seed:tool_call>'],
  },
  // Its reader takes JSON as well as what the model writes of its own.
  gemma4: { separator: '', call: (name) => [`<|tool_call>call:${name}`, '<tool_call|>'] },
  // The prompt ends with the first `>>>`.
  'functionary-v3.2': { separator: '>>>', call: (name) => [`${name}\n`, ''] },
  functionary: { separator: '', call: (name) => [`<function=${name}>`, '</function>'] },
  firefunction: {
    prefix: 'functools[',
    separator: ', ',
    suffix: ']',
    call: (name) => [`{"name": ${JSON.stringify(name)}, "arguments": `, '}'],
  },
  deepseek: {
    prefix: '<｜tool▁calls▁begin｜>',
    separator: '',
    suffix: '<｜tool▁calls▁end｜>',
    call: (name) => [`<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>`, '<｜tool▁call▁end｜>'],
  },
  // Behind the arguments comes `<|call|>`, one of the tokens that end a generation.
  harmony: {
    separator: '',
    endsTurn: true,
    call: (name) => [`<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>`, ''],
  },
};

/** Mistral before tokenizer v11. */
const MISTRAL_LIST: CallText = {
  prefix: '[TOOL_CALLS][',
  separator: ', ',
  suffix: ']',
  call: (name) => [`{"name": ${JSON.stringify(name)}, "arguments": `, '}'],
};

/** DeepSeek before V3.1. */
const DEEPSEEK_FENCED: CallText = {
  ...TEXTS.deepseek,
  separator: '\n',
  call: (name) => [`<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n`, '\n```<｜tool▁call▁end｜>'],
};

function callTextOf(format: ToolParser, template: string): CallText {
  if (format === 'mistral' && !template.includes('[ARGS]')) return MISTRAL_LIST;
  if (format === 'deepseek' && template.includes('```json')) return DEEPSEEK_FENCED;
  return TEXTS[format];
}
