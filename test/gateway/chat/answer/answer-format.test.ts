import { describe, expect, it } from 'vitest';
import {
  type AnswerFormat,
  answerFormatOf,
  markersOf,
  mentionsTools,
} from '../../../../src/gateway/chat/answer/answer-format.js';

/** Calls as templates write them, and what follows from it. */
const TEMPLATES: readonly (readonly [string, string, AnswerFormat])[] = [
  ['Qwen 2.5', `{{- '<tool_call>\\n{"name": "' }}`, { tools: 'hermes' }],
  ['Qwen 3', `{{- '<tool_call>' }}{{- '</think>' }}`, { tools: 'hermes', reasoning: 'think' }],
  ['Qwen 3 Coder', `{{- '<tool_call>\\n<function=' + tool.name }}`, { tools: 'qwen3-coder' }],
  [
    'GLM 4.6',
    `<tool_call>{{ n }}<arg_key>{{ k }}</arg_key>{{ '<think></think>' }}`,
    { tools: 'glm', reasoning: 'think' },
  ],
  ['Llama 3.2', `{{- 'Respond in the format {"name": function name, "parameters": dictionary' }}`, { tools: 'llama3' }],
  ['Mistral Nemo', `{{- "[TOOL_CALLS][" }}`, { tools: 'mistral' }],
  ['Ministral 3', `{{- '[TOOL_CALLS]' }}[ARGS]{{ '[THINK]' }}`, { tools: 'mistral', reasoning: 'mistral' }],
  [
    'DeepSeek R1',
    `{{'<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>'}}</think>`,
    { tools: 'deepseek', reasoning: 'think' },
  ],
  ['gpt-oss', `{{- "<|channel|>final<|message|>" }}`, { tools: 'harmony', reasoning: 'harmony' }],
  ['functionary', `<function={{ name }}><|python_tag|>`, {}],
  ['Functionary 3.1', `{{ '<function=' + name + '>' + arguments + '</function>' }}`, { tools: 'functionary' }],
  [
    'Functionary 3.2',
    `{{ '>>>all\\n' + content }}{{ '>>>' + name + '\\n' + arguments }}`,
    { tools: 'functionary-v3.2' },
  ],
  ['Firefunction 2', `{{ ' functools[' + calls | join(', ') + ']' }}`, { tools: 'firefunction' }],
  [
    'Seed-OSS',
    `{%- set begin = '<seed:tool_call>' %}<function={{ name }}></function><seed:think></seed:think>`,
    { tools: 'seed-oss', reasoning: 'seed-oss' },
  ],
  ['MiniMax-M3', `{%- set ns = ']<]minimax[>[' %}{{ ns + '<tool_call>' }}<invoke name={{ name }}>`, {}],
  ['Apriel 1.5', `<tool_calls>[{{ c }}]</tool_calls>{# not <tool_call> #}`, {}],
  ['Gemma 2', `<start_of_turn>{{ role }}`, {}],
];

describe('how a model answers follows from its chat template', () => {
  it.each(TEMPLATES)('%s', (_, template, format) => {
    expect(answerFormatOf(template)).toEqual({ tools: undefined, reasoning: undefined, ...format });
  });

  it('a template that has a word of calls need not know of tools', () => {
    expect(mentionsTools(`{% if tool_calls %}{{ message['tool_calls'] }}{% endif %}`)).toBe(false);
    expect(mentionsTools(`{% for tool in tools %}{{ tool }}{% endfor %}`)).toBe(true);
    expect(mentionsTools(`{% set text = text + functions %}`)).toBe(true);
    expect(mentionsTools(`{% set text = text + functions[0] %}`)).toBe(false);
  });
});

describe('the special tokens that a parser must see', () => {
  it.each([
    [{ tools: 'hermes', reasoning: 'think' }, ['<tool_call>', '</tool_call>', '<think>', '</think>']],
    [{ tools: 'llama3' }, ['<|python_tag|>']],
    [{ reasoning: 'mistral' }, ['[THINK]', '[/THINK]']],
    [{}, []],
  ] satisfies [AnswerFormat, string[]][])('of %j', (format, markers) => {
    expect([...markersOf(format)]).toEqual(markers);
  });

  it('of harmony, with what ends a message', () => {
    expect(markersOf({ tools: 'harmony', reasoning: 'harmony' })).toContain('<|call|>');
  });
});
