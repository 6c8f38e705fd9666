import { describe, expect, it } from 'vitest';
import { messagesRequest } from '../../../../src/gateway/api/http/anthropic/messages-request.js';
import { FieldPolicy } from '../../../../src/gateway/api/http/field-policy.js';
import { chatRequest } from '../../../../src/gateway/api/http/openai/chat-request.js';
import type { ChatInput, GenerateStreamRequest } from '../../../../src/shared/generated/rocmforge/v1/inference.js';

const question = { role: 'user', content: 'q' };
const chatMessage = (parts: object): GenerateStreamRequest =>
  chatRequest({ messages: [question], ...parts }, new FieldPolicy(true), { verbose: false }).messages[0]!;
const anthropicMessage = (parts: object): GenerateStreamRequest =>
  messagesRequest({ max_tokens: 5, messages: [question], ...parts }, new FieldPolicy(true)).messages[0]!;
const chatOf = ({ input }: GenerateStreamRequest): ChatInput => (input as { value: ChatInput }).value;
const turnsOf = (messages: readonly object[]) => chatOf(chatMessage({ messages })).messages;

describe('a chat in OpenAI’s form', () => {
  it('has its turns without what other servers add to them', () => {
    const part = { type: 'text', text: 'S', cache_control: { type: 'ephemeral' } };
    const call = {
      id: 'a',
      type: 'function',
      index: 0,
      extra_content: { google: {} },
      function: { name: 'f', arguments: '{}' },
    };
    const turns = turnsOf([
      { role: 'system', content: [part], cache_control: { type: 'ephemeral' } },
      question,
      { role: 'assistant', content: 'a', reasoning: 'Hm.', reasoning_details: [], tool_calls: [call] },
      { role: 'assistant', content: 'b', reasoning_content: 'So.', reasoning: 'Hm.', extra_content: {} },
    ]);
    expect(turns.map(({ content }) => content)).toEqual(['S', 'q', 'a', 'b']);
    expect(turns.map(({ reasoning }) => reasoning)).toEqual(['', '', 'Hm.', 'So.']);
    expect(turns[2]!.toolCalls).toEqual([{ id: 'a', name: 'f', argumentsJson: '{}' }]);
  });

  it('has text parts on lines of their own, but for the pieces of an answer', () => {
    const content = [
      { type: 'text', text: 'a' },
      { type: 'text', text: 'b' },
    ];
    const roles = ['system', 'user', 'assistant', 'tool'];
    const turns = turnsOf(roles.map((role) => ({ role, content })));
    expect(turns.map((turn) => turn.content)).toEqual(['a\nb', 'a\nb', 'ab', 'a\nb']);
    const result = { type: 'tool_result', tool_use_id: 'x', content };
    const messages = [
      { role: 'user', content: [result, ...content] },
      { role: 'assistant', content },
    ];
    const read = chatOf(anthropicMessage({ messages })).messages;
    expect(read.map((turn) => turn.content)).toEqual(['a\nb', 'a\nb', 'ab']);
  });

  it.each([
    ['{"a": ', '{"a": '],
    ['', ''],
    [{ a: 1 }, '{"a":1}'],
    [undefined, ''],
    [null, ''],
  ])('has calls with the arguments %j', (args, argumentsJson) => {
    const call = { id: 'a', type: 'function', function: { name: 'f', arguments: args } };
    const turns = turnsOf([question, { role: 'assistant', content: null, tool_calls: [call] }]);
    expect(turns[1]!.toolCalls).toEqual([{ id: 'a', name: 'f', argumentsJson }]);
  });

  it('takes -1 as no limit, llama.cpp’s name of a penalty, and a share of 0 as the likeliest token', () => {
    expect(chatMessage({ max_tokens: -1 }).stop?.maxTokens).toBeUndefined();
    expect(chatMessage({ repeat_penalty: 1.5 }).sampling?.repetitionPenalty).toBe(1.5);
    expect(chatMessage({ repetition_penalty: 1.25, repeat_penalty: 1.25 }).sampling?.repetitionPenalty).toBe(1.25);
    expect(chatMessage({ top_p: 0, top_k: 40 }).sampling).toMatchObject({ topK: 1, topP: undefined });
  });
});

describe('a request in Anthropic’s form', () => {
  it('says whether the model thinks, and what it manages itself has no effect', () => {
    const variables = (parts: object) => chatOf(anthropicMessage(parts)).templateVariablesJson;
    expect(variables({ thinking: { type: 'enabled', budget_tokens: 1024 } })).toBe(
      '{"enable_thinking":true,"thinking":true}',
    );
    expect(variables({ thinking: { type: 'disabled' } })).toBe('{"enable_thinking":false,"thinking":false}');
    expect(variables({ context_management: { edits: [] }, output_config: { effort: 'high' } })).toBe(
      '{"reasoning_effort":"high"}',
    );
  });

  it('has a system text without the block that changes with each request', () => {
    const text = (value: string) => ({ type: 'text', text: value });
    const header = text('x-anthropic-billing-header: cc_version=2.1; cch=11111;');
    const [system] = chatOf(anthropicMessage({ system: [header, text('Be brief.')] })).messages;
    expect(system).toMatchObject({ role: 'system', content: 'Be brief.' });
    expect(chatOf(anthropicMessage({ system: [header] })).messages.map(({ role }) => role)).toEqual(['user']);
  });

  it.each([
    ['{"a": ', '{"a": '],
    [{ a: 1 }, '{"a":1}'],
    [[1], '[1]'],
    [undefined, '{}'],
  ])('has calls with the input %j', (input, argumentsJson) => {
    const content = [{ type: 'tool_use', id: 'a', name: 'f', input }];
    const { messages } = chatOf(anthropicMessage({ messages: [question, { role: 'assistant', content }] }));
    expect(messages[1]!.toolCalls).toEqual([{ id: 'a', name: 'f', argumentsJson }]);
  });
});
