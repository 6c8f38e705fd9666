import { expect, it } from 'vitest';
import { CALL_FORMATS } from '../../../src/gateway/chat/answer/answer-format.js';
import { HARMONY_ANSWER, HARMONY_REASONING, HARMONY_TURN } from '../../../src/gateway/chat/answer/harmony.js';
import { type ToolGrammar, toolGrammar } from '../../../src/gateway/chat/answer/tool-grammar.js';
import {
  type ConstrainedResponse,
  type GivenConstraint,
  grammarOf,
} from '../../../src/gateway/constraints/grammar-of.js';
import type { ForcedToolCalls } from '../../../src/gateway/constraints/tool-calls-grammar.js';
import { acceptedBy } from '../../support/byte-engine.js';

type Format = Parameters<typeof toolGrammar>[1]['format'];
type Given = ConstrainedResponse['constraint'];

const HOUR = '{"type": "object", "properties": {"hour": {"enum": [7, 8]}}, "additionalProperties": false}';
const AGE =
  '{"type": "object", "properties": {"age": {"enum": [1, 2]}}, "required": ["age"], "additionalProperties": false}';
const TOOLS = [
  { name: 'clock', parametersJson: HOUR },
  { name: 'any', parametersJson: '{"type": "object"}' },
];
const schema: Given = { $case: 'jsonSchema', value: AGE };

/** A turn that calls or satisfies a constraint. */
function either(
  constraint: Given,
  { format = 'hermes', ...more }: { format?: Format } & Partial<ForcedToolCalls & ConstrainedResponse> = {},
): GivenConstraint {
  const { opener = '', ...held } = more;
  const calls = toolGrammar(TOOLS, { format, template: '', toolChoice: undefined, isParallel: true }) as ToolGrammar;
  const { openers, isBare = false } = format === 'harmony' ? { openers: [] } : CALL_FORMATS[format];
  return { $case: 'toolCalls', value: { calls, openers, isBare, ...held, answer: { constraint, opener } } };
}

async function expectTexts(constraint: GivenConstraint, taken: readonly string[], others: readonly string[]) {
  expect(await acceptedBy(grammarOf(constraint), [...taken, ...others])).toEqual(taken);
}

const call = (args: string, name = 'clock') => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`;

it.each<[string, Given, string, string]>([
  ['a JSON schema', schema, '{"age": 1}', '{"age": 3}'],
  ['a regular expression', { $case: 'regex', value: '[ab]{2}' }, 'ab', 'ac'],
  ['a grammar', { $case: 'grammar', value: 'root ::= call\ncall ::= "a" call | "b"' }, 'aab', 'aa'],
  ['choices', { $case: 'choice', value: { options: ['yes', 'no'] } }, 'no', 'noyes'],
])('calls by the schemas, or satisfies %s, and nothing else', async (_kind, constraint, right, wrong) =>
  expectTexts(
    either(constraint),
    [right, call('{"hour": 7}'), call('{"a": [1]}', 'any'), `${call('{}')}\n${call('{"hour": 8}')}`],
    [
      ...['', 'No.', wrong, `${right}${call('{}')}`, `${right}\n${call('{}')}`, `So: ${call('{}')}`],
      ...[call('{"hour": 9}'), `${call('{}')}${right}`, call('{"age": 1}'), call('{}', 'other')],
    ],
  ),
);

it('calls or answers also where calls begin with a brace', () => {
  const bare = (args: string) => `{"name": "clock", "parameters": ${args}}`;
  return expectTexts(
    either(schema, { format: 'llama3' }),
    ['{"age": 1}', bare('{"hour": 7}'), `${bare('{}')}; ${bare('{}')}`],
    ['{"age": 3}', bare('{"hour": 9}'), '{"hour": 7}', `{"age": 1}; ${bare('{}')}`],
  );
});

it('thinks first, and then does one or the other', () => {
  const reasoning = { begin: '<think>', end: '</think>', isBegun: true };
  return expectTexts(
    either(schema, { reasoning }),
    [`Hm ${call('{"hour": 9}')}</think>\n\n{"age": 2}`, `</think>${call('{"hour": 7}')}`],
    ['{"age": 2}', 'Hm</think>', `</think>${call('{"hour": 9}')}`, '</think>{"age": 3}'],
  );
});

it('has the channels of harmony, each for its own', () => {
  const reasoning = { ...HARMONY_REASONING, isBegun: false };
  const called = (args: string) => `<|channel|>commentary to=functions.clock <|constrain|>json<|message|>${args}`;
  const thought = '<|channel|>analysis<|message|>So.<|end|><|start|>assistant';
  const answer = `${HARMONY_ANSWER}{"age": 1}`;
  return expectTexts(
    either(schema, { format: 'harmony', opener: HARMONY_ANSWER, messages: HARMONY_TURN, reasoning }),
    [answer, `${thought}${answer}`, called('{"hour": 7}'), `${thought}${called('{"hour": 8}')}`],
    ['{"age": 1}', `${HARMONY_ANSWER}No.`, called('{"hour": 9}'), `<|channel|>commentary<|message|>{"age": 1}`],
  );
});

it('writes calls between tags and the answer as JSON, in which no tag can begin', () => {
  const tagged = (hour: string) =>
    `<tool_call>clock\n<arg_key>hour</arg_key>\n<arg_value>${hour}</arg_value>\n</tool_call>`;
  const text =
    '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}';
  return expectTexts(
    either({ $case: 'jsonSchema', value: text }, { format: 'glm' }),
    [tagged('7'), '{"a": "b"}', '{"a": "\\u003ctool_call>"}'],
    [tagged('9'), '{"a": "<tool_call>"}', '{"hour": 7}'],
  );
});

it('names what is wrong with the schema of a function as such', () => {
  const parametersJson = '{"type": "objekt"}';
  const calls = toolGrammar([{ name: 'f', parametersJson }], {
    ...{ format: 'hermes', template: '', toolChoice: undefined, isParallel: true },
  }) as ToolGrammar;
  const value = { calls, openers: [], isBare: false, answer: { constraint: schema, opener: '' } };
  expect(() => grammarOf({ $case: 'toolCalls', value })).toThrow(
    expect.objectContaining({
      metadata: expect.objectContaining({ field: 'chat.tools.parameters_json' }),
      message: expect.stringContaining('of "f" at /type'),
    }),
  );
});
