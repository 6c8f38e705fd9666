import type { ChatMessage, ChatTool, Conversation } from './template-input.js';

/**
 * Conversations with tools for a template that knows of none (`--tools-fallback`): the functions are described in a text, calls
 * are written as Hermes writes them, and their results stand in turns of the user.
 */
export function withoutToolTurns(
  { tools = [], ...conversation }: Conversation,
  place: 'system' | 'user',
): Conversation {
  const turns = conversation.messages.map(plainTurn);
  const described = describedIn(merged(turns), descriptionOf(tools), place);
  return { ...conversation, messages: described, tools: [] };
}

/** True if a conversation has what only tools bring with them. */
export const hasToolTurns = ({ messages, tools = [] }: Conversation): boolean =>
  tools.length > 0 || messages.some(({ role, toolCalls = [] }) => role === 'tool' || toolCalls.length > 0);

const INTRODUCTION =
  'You may call functions to answer. Each is described by a line of JSON: its name, what it does, and a JSON Schema of its arguments.';
const FORM =
  'To call a function, end your answer with its name and arguments as JSON within these tags, once for each call:\n' +
  '<tool_call>\n{"name": "NAME", "arguments": {}}\n</tool_call>\n' +
  'The results come within <tool_response> tags. If no function is needed, answer without tags.';

function descriptionOf(tools: readonly ChatTool[]): string {
  if (tools.length === 0) return '';
  const lines = tools.map(({ name, description, parametersJson }) => {
    const parameters = parametersJson === '' ? '{"type": "object", "properties": {}}' : parametersJson;
    // The schema as it was written: JSON.parse would round its numbers.
    const rest = description === '' ? '' : `"description": ${JSON.stringify(description)}, `;
    return `{"name": ${JSON.stringify(name)}, ${rest}"parameters": ${parameters}}`;
  });
  return [INTRODUCTION, ...lines, FORM].join('\n');
}

/** A turn without calls, or a result as the user's. */
function plainTurn(turn: ChatMessage): ChatMessage {
  const { role, content, toolCalls = [] } = turn;
  if (role === 'tool') return { role: 'user', content: `<tool_response>\n${content}\n</tool_response>` };
  if (toolCalls.length === 0) return turn;
  const calls = toolCalls.map(({ name, argumentsJson }) => {
    const written = argumentsJson.trim() === '' ? '{}' : argumentsJson;
    return `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${written}}\n</tool_call>`;
  });
  return { ...turn, content: [...(content === '' ? [] : [content]), ...calls].join('\n'), toolCalls: [] };
}

/** Results that follow each other, and what the user says behind them, are one turn: many templates want turns to alternate. */
function merged(turns: readonly ChatMessage[]): readonly ChatMessage[] {
  const all: ChatMessage[] = [];
  for (const turn of turns) {
    const last = all.at(-1);
    const isBehindResult = last?.role === 'user' && last.content.endsWith('</tool_response>') && turn.role === 'user';
    if (isBehindResult) all[all.length - 1] = { ...last, content: `${last.content}\n${turn.content}` };
    else all.push(turn);
  }
  return all;
}

function describedIn(
  turns: readonly ChatMessage[],
  description: string,
  place: 'system' | 'user',
): readonly ChatMessage[] {
  if (description === '') return turns;
  const at = turns.findIndex(({ role }) => role === place || (place === 'system' && role === 'developer'));
  const found = turns[at];
  if (found === undefined || (place === 'system' && at > 0)) return [{ role: place, content: description }, ...turns];
  const content = place === 'system' ? `${found.content}\n\n${description}` : `${description}\n\n${found.content}`;
  return turns.map((turn, i) => (i === at ? { ...turn, content } : turn));
}
