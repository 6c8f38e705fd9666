import { describe, expect, it } from 'vitest';
import type { AnswerFormat, ToolParser } from '../../../../src/gateway/chat/answer/answer-format.js';
import type { ResponseStart } from '../../../../src/gateway/chat/answer/answer-parser.js';
import { cut, readTurn } from './turns.js';

const JSON_CALL = '{"name": "weather", "arguments": {"place": "Rome", "days": 2}}';

/** A turn of each format that calls twice, the reasoning, if any, left out. */
const CALLS: Readonly<Record<ToolParser, string>> = {
  hermes: `<tool_call>\n${JSON_CALL}\n</tool_call>\n<tool_call>\n${JSON_CALL}\n</tool_call>`,
  llama3: `<|python_tag|>${JSON_CALL}; ${JSON_CALL}`,
  mistral: `[TOOL_CALLS][${JSON_CALL}, ${JSON_CALL}]`,
  glm: '<tool_call>weather\n<arg_key>place</arg_key>\n<arg_value>Rome</arg_value>\n</tool_call>\n<tool_call>clock\n</tool_call>',
  'qwen3-coder':
    '<tool_call>\n<function=weather>\n<parameter=place>\nRome\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=clock>\n</function>\n</tool_call>',
  'seed-oss':
    '<seed:tool_call>\n<function=weather>\n<parameter=place>Rome</parameter>\n</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=clock>\n</function>\n</seed:tool_call>',
  gemma4:
    '<|tool_call>call:weather{place:<|"|>Rome<|"|>,days:2,tags:[true,{a:<|"|>b<|"|>}]}<tool_call|><|tool_call>call:clock{}<tool_call|>',
  deepseek:
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{"place": "Rome"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  'functionary-v3.2': 'weather\n{"place": "Rome"}>>>clock\n{}',
  functionary: '<function=weather>{"place": "Rome"}</function><function=clock>{}</function>',
  firefunction: `functools[${JSON_CALL}, ${JSON_CALL}]`,
  harmony:
    '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"place": "Rome"}<|call|>',
};

const MORE: Readonly<Record<string, readonly [AnswerFormat, text: string, start?: ResponseStart]>> = {
  'llama3 without a tag': [{ tools: 'llama3' }, `${JSON_CALL}; ${JSON_CALL}`],
  'mistral by name': [
    { tools: 'mistral' },
    '[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"place": "Rome"}[TOOL_CALLS]clock[ARGS]{}',
  ],
  'deepseek by name': [
    { tools: 'deepseek' },
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"place": "Rome"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  ],
  'hermes behind reasoning': [{ tools: 'hermes', reasoning: 'think' }, `<think>\nHm.\n</think>\n\n${CALLS.hermes}`],
  'hermes within reasoning': [{ tools: 'hermes', reasoning: 'think' }, `Hm.\n${CALLS.hermes}`, 'reasoning'],
  'hermes, arguments as a string': [
    { tools: 'hermes' },
    '<tool_call>{"name": "weather", "arguments": "{\\"place\\": \\"Rome\\"}"}</tool_call>',
  ],
  'granite with reasoning': [
    { tools: 'hermes', reasoning: 'granite' },
    `<think>Hm.</think><response></response>${CALLS.hermes}`,
  ],
};

const cases = [
  ...Object.entries(CALLS).map(([tools, text]) => {
    const reasoning = tools === 'harmony' ? ('harmony' as const) : undefined;
    return [tools, { tools: tools as ToolParser, reasoning }, text, 'turn' as ResponseStart] as const;
  }),
  ...Object.entries(MORE).map(([name, [format, text, start = 'turn']]) => [name, format, text, start] as const),
];

describe('a turn of calls that max_tokens cuts', () => {
  it.each(cases)('has no markup as content: %s', (_name, format, text, start) => {
    for (let end = 0; end < text.length; end++) {
      const beginning = text.slice(0, end);
      const { content = '', reasoning = '' } = readTurn(format, [beginning], { start, isCut: true });
      expect({ beginning, content }).toEqual({ beginning, content: '' });
      expect('Hm.'.startsWith(reasoning), `reasoning ${JSON.stringify(reasoning)}`).toBe(true);
    }
  });

  it.each(cases)('is the same however it comes: %s', (_name, format, text, start) => {
    for (let end = 0; end < text.length; end += 3) {
      const beginning = text.slice(0, end);
      const whole = readTurn(format, [beginning], { start, isCut: true });
      expect(readTurn(format, [...beginning], { start, isCut: true })).toEqual(whole);
      expect(readTurn(format, cut(beginning, [end >> 1]), { start, isCut: true })).toEqual(whole);
    }
  });
});
