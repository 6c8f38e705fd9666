import type { Message, Settings } from '../chat/conversation.js';

/** Settings that cannot be sent. */
export class SettingsError extends Error {
  constructor(
    message: string,
    /** The setting. */
    readonly setting: 'constraint' | 'tools' | 'sampling',
  ) {
    super(message);
  }
}

/** Alternatives for each token if log probabilities are on. */
const TOP_LOGPROBS = 5;

/**
 * JSON of a chat request. Schemas and tools are inserted as they were written, so that no number in them is rounded.
 *
 * @param path messages from the first to the one that is answered, or to the beginning of the answer that is continued
 * @throws SettingsError for settings that are not JSON or not a number
 */
export function chatBody(model: string, settings: Settings, path: readonly Message[]): string {
  const fields: string[] = [];
  const add = (name: string, value: unknown) => fields.push(`${JSON.stringify(name)}:${JSON.stringify(value)}`);
  const addText = (name: string, text: string) => fields.push(`${JSON.stringify(name)}:${text}`);
  if (model !== '') add('model', model);
  const system = settings.system.trim() === '' ? [] : [{ role: 'system', content: settings.system }];
  add('messages', [...system, ...path.map((message, i) => turnOf(message, i === path.length - 1))]);
  add('stream', true);
  add('stream_options', { include_usage: true, continuous_usage_stats: true });
  add('return_recovery', true);
  for (const [name, value] of Object.entries(settings.sampling)) {
    if (value.trim() === '') continue;
    if (name === 'stop')
      add(
        'stop',
        value.split('\n').filter((line) => line !== ''),
      );
    else addText(name, numberText(name, value.trim()));
  }
  if (settings.thinking !== '') add('chat_template_kwargs', { enable_thinking: settings.thinking === 'on' });
  if (settings.logprobs) {
    add('logprobs', true);
    add('top_logprobs', TOP_LOGPROBS);
  }
  addConstraint(settings, add, addText);
  if (settings.tools.trim() !== '') addText('tools', jsonText(settings.tools, 'tools', '['));
  return `{${fields.join()}}`;
}

function addConstraint(
  { constraint: { kind, text } }: Settings,
  add: (name: string, value: unknown) => void,
  addText: (name: string, text: string) => void,
): void {
  if (kind === 'grammar') add('grammar', text);
  if (kind !== 'schema') return;
  const schema = jsonText(text, 'constraint', '{');
  addText('response_format', `{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":${schema}}}`);
}

/** @throws SettingsError if the text is not JSON that begins with the character */
function jsonText(text: string, setting: 'constraint' | 'tools', first: '{' | '['): string {
  const what = setting === 'tools' ? 'tools' : 'the schema';
  if (text.trim() === '')
    throw new SettingsError(`${what}: is empty; write one, or set the constraint to “None”`, setting);
  try {
    JSON.parse(text);
  } catch (error) {
    throw new SettingsError(`${what}: ${(error as Error).message}`, setting);
  }
  if (text.trimStart()[0] === first) return text;
  throw new SettingsError(`${what}: must be a JSON ${first === '{' ? 'object' : 'array'}`, setting);
}

/** A number as it was typed: a seed has more digits than a double. @throws SettingsError */
function numberText(name: string, value: string): string {
  if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(value)) return value;
  throw new SettingsError(`${name}: "${value}" must be a number`, 'sampling');
}

function turnOf({ role, content, reasoning, toolCalls, toolCallId }: Message, isLast: boolean): unknown {
  if (role === 'tool') return { role, content, tool_call_id: toolCallId };
  if (role === 'user') return { role, content };
  const calls = toolCalls.map(({ id, name, args }) => ({ id, type: 'function', function: { name, arguments: args } }));
  return {
    role,
    content,
    ...(calls.length > 0 && { tool_calls: calls }),
    // The beginning of an answer is continued only without its reasoning, which the template has no place for.
    ...(reasoning !== '' && !isLast && { reasoning_content: reasoning }),
  };
}
