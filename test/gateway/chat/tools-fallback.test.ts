import { expect, it } from 'vitest';
import type { Conversation } from '../../../src/gateway/chat/template-input.js';
import { hasToolTurns, withoutToolTurns } from '../../../src/gateway/chat/tools-fallback.js';

const tools = [{ name: 'clock', description: 'Tells the time.', parametersJson: '{"type": "object", "maximum": 1.0}' }];
const call = { id: 'a', name: 'clock', argumentsJson: '{"zone": "UTC"}' };
const conversation: Conversation = {
  messages: [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'When?' },
    { role: 'assistant', content: 'I look.', toolCalls: [call, { ...call, id: 'b', argumentsJson: '' }] },
    { role: 'tool', content: 'noon', toolCallId: 'a' },
    { role: 'tool', content: 'night', toolCallId: 'b' },
    { role: 'user', content: 'Thanks.' },
  ],
  tools,
};

it('describes tools behind the instructions, and writes calls and results as text', () => {
  const { messages, tools: left } = withoutToolTurns(conversation, 'system');
  expect(left).toEqual([]);
  expect(messages.map(({ role }) => role)).toEqual(['system', 'user', 'assistant', 'user']);
  const [system, , assistant, user] = messages.map(({ content }) => content);
  expect(system).toMatch(/^Be brief\.\n\n/);
  expect(system).toContain(
    '{"name": "clock", "description": "Tells the time.", "parameters": {"type": "object", "maximum": 1.0}}',
  );
  expect(assistant).toBe(
    'I look.\n<tool_call>\n{"name": "clock", "arguments": {"zone": "UTC"}}\n</tool_call>\n<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>',
  );
  expect(user).toBe('<tool_response>\nnoon\n</tool_response>\n<tool_response>\nnight\n</tool_response>\nThanks.');
});

it('describes them in front of what the user says where there is no place for instructions', () => {
  const { messages } = withoutToolTurns({ messages: [{ role: 'user', content: 'When?' }], tools }, 'user');
  expect(messages).toHaveLength(1);
  expect(messages[0]?.content).toMatch(/"clock"[\s\S]*\n\nWhen\?$/);
});

it('has nothing to do without tools', () => {
  expect(hasToolTurns({ messages: [{ role: 'user', content: 'x' }] })).toBe(false);
  expect(hasToolTurns(conversation)).toBe(true);
});
