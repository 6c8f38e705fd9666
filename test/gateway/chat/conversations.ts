import type { ChatMessage, ChatTool, Conversation } from '../../../src/gateway/chat/chat-template.js';

const user = (content: string): ChatMessage => ({ role: 'user', content });
const assistant = (content: string): ChatMessage => ({ role: 'assistant', content });
const system: ChatMessage = { role: 'system', content: 'You are terse.' };
const calls = (content: string, ...argumentsJson: string[]): ChatMessage => ({
  role: 'assistant',
  content,
  toolCalls: argumentsJson.map((json, i) => ({
    id: `call${i}abcd`,
    name: i === 0 ? 'weather' : 'clock',
    argumentsJson: json,
  })),
});
const answer = (content: string, i = 0): ChatMessage => ({
  role: 'tool',
  content,
  toolCallId: `call${i}abcd`,
  name: 'weather',
});

const WEATHER: ChatTool = {
  name: 'weather',
  description: 'The weather "now" at a place & time.',
  parametersJson:
    '{"type":"object","properties":{"place":{"type":"string","description":"A town."},"days":{"type":"integer","minimum":0,"default":1},"units":{"type":"string","enum":["C","F"]},"at":{"type":["string","null"]}},"required":["place"]}',
};
const CLOCK: ChatTool = { name: 'clock', description: 'The time.', parametersJson: '' };
const tools = [WEATHER, CLOCK];

/** Thirteen kinds of conversation. */
export const CONVERSATIONS: Readonly<Record<string, Conversation>> = {
  plain: { messages: [user('Hello, who are you?')] },
  system: { messages: [system, user('Hello')] },
  'several turns': {
    messages: [system, user('1+1?'), assistant('  2\n'), user('And 2+2?'), assistant('4'), user('  Bye ')],
  },
  'empty content': { messages: [user(''), assistant(''), user('Again')] },
  'tools offered': { messages: [system, user('Weather in Rome?')], tools },
  'one call': { messages: [user('Weather?'), calls('', '{"place": "Rome", "days": 2}')], tools },
  'several calls': {
    messages: [
      user('Weather?'),
      calls('', '{"place": "Rome", "at": ["a", {"b": true}]}', '{}'),
      answer('21'),
      answer('noon', 1),
    ],
    tools,
  },
  'call with content': {
    messages: [user('Weather?'), calls('I look.', '{"place": "Rome"}'), answer('{"t": 21}')],
    tools,
  },
  'tool result': {
    messages: [
      user('Weather?'),
      calls('', '{"place": "Rome"}'),
      answer('21 °C'),
      assistant('It is 21 °C.'),
      user('Thanks'),
    ],
    tools,
  },
  'null argument': {
    messages: [user('Weather?'), calls('', '{"place": null, "at": {"b": 1, "10": 2, "2": []}}'), answer('21')],
    tools,
  },
  'whole-number float': {
    messages: [
      user('Weather?'),
      calls('', '{"days": 1.0, "id": 9007199254740993, "n": 12345678901234567890123, "z": -0.0, "e": 1e22}'),
      answer('21'),
    ],
    tools,
  },
  reasoning: {
    messages: [
      user('Why?'),
      assistant('<think>\nBecause.\n</think>\n\n  def f():\n    pass'),
      user('And now?'),
      assistant('<think>x</think>y'),
      user('So?'),
    ],
  },
  'no generation prompt': { messages: [user('Hello'), assistant('Hi')], addGenerationPrompt: false },
};
