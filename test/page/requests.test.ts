import { expect, it } from 'vitest';
import { DEFAULT_SETTINGS, type Message, type Settings } from '../../src/page/chat/conversation.js';
import { chatBody, SettingsError } from '../../src/page/server/chat-body.js';

const base: Message = {
  ...{ id: 'a', conversation: 'c', role: 'user', created: 0, saved: 0, content: 'Hello', reasoning: '' },
  ...{ toolCalls: [], state: 'complete', model: '', marks: [] },
};
const body = (change: Partial<Settings>, path: readonly Message[] = [base]) =>
  chatBody('demo', { ...DEFAULT_SETTINGS, ...change }, path);

it('asks for usage and recoveries, and leaves the rest to the server', () => {
  expect(JSON.parse(body({}))).toEqual({
    model: 'demo',
    messages: [{ role: 'user', content: 'Hello' }],
    stream: true,
    stream_options: { include_usage: true, continuous_usage_stats: true },
    return_recovery: true,
  });
});

it('keeps the digits of seeds, schemas and tools', () => {
  const digits = '12345678901234567890';
  const schema = `{"type": "integer", "maximum": ${digits}}`;
  const tools = `[{"type": "function", "function": {"name": "f", "parameters": {"const": ${digits}.5}}}]`;
  const text = body({ sampling: { seed: digits }, constraint: { kind: 'schema', text: schema }, tools });
  expect(text).toContain(`"seed":${digits},`);
  expect(text).toContain(schema);
  expect(text).toContain(tools);
  expect(JSON.parse(text).response_format.type).toBe('json_schema');
});

it('sends sampling, stop strings, a grammar, thinking, log probabilities and the system prompt', () => {
  const sampling = { temperature: '0.5', stop: 'END\nSTOP\n' };
  const constraint = { kind: 'grammar', text: 'root ::= "a"' } as const;
  expect(
    JSON.parse(body({ system: 'Be brief.', sampling, constraint, thinking: 'off', logprobs: true })),
  ).toMatchObject({
    messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user' }],
    temperature: 0.5,
    stop: ['END', 'STOP'],
    grammar: 'root ::= "a"',
    chat_template_kwargs: { enable_thinking: false },
    logprobs: true,
    top_logprobs: 5,
  });
});

it.each([
  ['sampling', { sampling: { temperature: 'hot' } }],
  ['sampling', { sampling: { temperature: '1,"n":9' } }],
  ['constraint', { constraint: { kind: 'schema', text: '{' } }],
  ['constraint', { constraint: { kind: 'schema', text: '1' } }],
  ['tools', { tools: '{}' }],
] as const)('names a wrong setting: %s', (setting, change) => {
  expect(() => body(change)).toThrowError(expect.objectContaining({ setting }));
  expect(() => body(change)).toThrow(SettingsError);
});

it('sends calls, their results and reasoning of earlier answers', () => {
  const call = { id: 'x', name: 'f', args: '{}' };
  const answer: Message = { ...base, role: 'assistant', content: '', reasoning: 'hm', toolCalls: [call] };
  const result: Message = { ...base, role: 'tool', content: '7', toolCallId: 'x' };
  expect(JSON.parse(body({}, [base, answer, result])).messages.slice(1)).toEqual([
    {
      role: 'assistant',
      content: '',
      tool_calls: [{ id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }],
      reasoning_content: 'hm',
    },
    { role: 'tool', content: '7', tool_call_id: 'x' },
  ]);
});

it('continues an answer without its reasoning', () => {
  const begun: Message = { ...base, role: 'assistant', content: 'Once', reasoning: 'hm' };
  expect(JSON.parse(body({}, [base, begun])).messages.at(-1)).toEqual({ role: 'assistant', content: 'Once' });
});
