import type { CallFormat, ReasoningFormat } from './call-format.js';
import { DEEPSEEK } from './deepseek.js';
import { FIREFUNCTION } from './firefunction.js';
import { FUNCTIONARY } from './functionary.js';
import { FUNCTIONARY_V3 } from './functionary-v3.js';
import { GEMMA } from './gemma.js';
import { GLM } from './glm.js';
import { HARMONY_MARKERS } from './harmony.js';
import { HERMES } from './hermes.js';
import { LLAMA } from './llama.js';
import { MISTRAL } from './mistral.js';
import { QWEN_CODER } from './qwen-coder.js';
import { SEED_OSS } from './seed-oss.js';

/** Names of the formats of calls, as `--tool-parser` takes them. */
export const TOOL_PARSERS = [
  'hermes',
  'llama3',
  'mistral',
  'glm',
  'deepseek',
  'harmony',
  'qwen3-coder',
  'gemma4',
  'functionary',
  'firefunction',
  'seed-oss',
  'functionary-v3.2',
] as const;
export type ToolParser = (typeof TOOL_PARSERS)[number];

/** Names of the formats of reasoning, as `--reasoning-parser` takes them, beside `none`. */
export const REASONING_PARSERS = ['think', 'granite', 'mistral', 'harmony', 'gemma4', 'seed-oss'] as const;
export type ReasoningParser = (typeof REASONING_PARSERS)[number];

/** Markup with which a model writes everything except content. */
export interface AnswerFormat {
  /** Absent: its calls are not known here. */
  readonly tools?: ToolParser | undefined;
  /** Absent: it does not reason, or that is part of its content. */
  readonly reasoning?: ReasoningParser | undefined;
}

/** The formats that read calls out of a text; harmony reads whole turns, in `harmony.ts`. */
export const CALL_FORMATS: Readonly<Record<Exclude<ToolParser, 'harmony'>, CallFormat>> = {
  hermes: HERMES,
  llama3: LLAMA,
  mistral: MISTRAL,
  glm: GLM,
  deepseek: DEEPSEEK,
  'qwen3-coder': QWEN_CODER,
  gemma4: GEMMA,
  functionary: FUNCTIONARY,
  firefunction: FIREFUNCTION,
  'seed-oss': SEED_OSS,
  'functionary-v3.2': FUNCTIONARY_V3,
};

export const REASONING_FORMATS: Readonly<Record<Exclude<ReasoningParser, 'harmony'>, ReasoningFormat>> = {
  think: { begin: '<think>', end: '</think>' },
  granite: { begin: '<think>', end: '</think>', answer: { begin: '<response>', end: '</response>' } },
  mistral: { begin: '[THINK]', end: '[/THINK]' },
  gemma4: { begin: '<|channel>thought', end: '<channel|>', markers: ['<|channel>'] },
  'seed-oss': { begin: '<seed:think>', end: '</seed:think>' },
};

/** Markup by which a template shows a format: the first format of which it has all. */
const TOOL_MARKS: readonly (readonly [ToolParser, readonly string[]])[] = [
  ['harmony', ['<|channel|>', '<|message|>']],
  ['deepseek', ['<｜tool▁call▁begin｜>']],
  ['gemma4', ['<|tool_call>', '<tool_call|>']],
  ['seed-oss', ['<seed:tool_call>', '<function=']],
  ['glm', ['<tool_call>', '<arg_key>']],
  ['qwen3-coder', ['<tool_call>', '<function=']],
  ['hermes', ['<tool_call>']],
  ['mistral', ['[TOOL_CALLS]']],
  ['functionary', ['<function=', '</function>']],
  ['functionary-v3.2', ['>>>all']],
  ['firefunction', ['functools[']],
  ['llama3', ['{"name": function name, "parameters":']],
];

/** Markup of formats that are not known here, whose templates speak of another's, too: Apriel's lists, MiniMax-M3's. */
const OTHER_MARKS = ['<tool_calls>', ']<]minimax[>['];

const REASONING_MARKS: readonly (readonly [ReasoningParser, readonly string[]])[] = [
  ['harmony', ['<|channel|>', '<|message|>']],
  ['gemma4', ['<|channel>', '<channel|>']],
  ['mistral', ['[THINK]']],
  ['seed-oss', ['<seed:think>', '</seed:think>']],
  ['granite', ['</think>', '<response>']],
  ['think', ['</think>']],
];

/** Format of calls and reasoning of a model with this chat template, by the markup in the template. */
export function answerFormatOf(template: string): AnswerFormat {
  const tools = OTHER_MARKS.some((mark) => template.includes(mark)) ? undefined : markedIn(template, TOOL_MARKS);
  return { tools, reasoning: markedIn(template, REASONING_MARKS) };
}

/** True if an answer has markup although nothing in it is reasoning or a call: headers say what is content. */
export function isAddressed({ tools, reasoning }: AnswerFormat): boolean {
  if (tools === 'harmony' || reasoning === 'harmony') return true;
  return tools !== undefined && CALL_FORMATS[tools].isAddressed === true;
}

/** True if a chat template does anything with tools: where it does not, the model never hears of them. */
export function mentionsTools(template: string): boolean {
  return /\btools\b/.test(template) || joinsFunctions(template);
}

/** True if a chat template takes its tools as a text, "functions", that it joins to others. */
export function joinsFunctions(template: string): boolean {
  return /[+~] *functions\b(?! *[.([])/.test(template);
}

/**
 * Names of special tokens that mean something to a format. They are part of no text that a client gets, and yet its parser
 * must see them.
 */
export function markersOf({ tools, reasoning }: AnswerFormat): ReadonlySet<string> {
  if (tools === 'harmony' || reasoning === 'harmony') return new Set(HARMONY_MARKERS);
  const calls = tools && CALL_FORMATS[tools];
  const thoughts = reasoning && REASONING_FORMATS[reasoning];
  return new Set([
    ...(calls ? [...calls.openers, ...calls.closers, ...(calls.markers ?? [])] : []),
    ...(thoughts ? [thoughts.begin, thoughts.end, ...(thoughts.markers ?? [])] : []),
    ...(thoughts?.answer ? [thoughts.answer.begin, thoughts.answer.end] : []),
  ]);
}

function markedIn<Name>(template: string, marks: readonly (readonly [Name, readonly string[]])[]): Name | undefined {
  return marks.find(([, all]) => all.every((mark) => template.includes(mark)))?.[0];
}
