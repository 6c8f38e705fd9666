import { parseJson } from '../../lib/jinja/json.js';
import { Dict, list, NONE, Sequence, type Value } from '../../lib/jinja/values.js';
import { RocmForgeError } from '../../shared/errors.js';
import { type ToolChoice, ToolChoiceMode } from '../../shared/generated/rocmforge/v1/inference.js';
import { withNineCharacterIds } from './call-ids.js';
import { argumentsFor } from './past-arguments.js';
import type { TemplateProbe } from './template-probe.js';

/** One turn; the fields of `rocmforge.v1.ChatMessage`. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly name?: string | undefined;
  readonly toolCalls?: readonly ChatToolCall[] | undefined;
  readonly toolCallId?: string | undefined;
  /** The assistant's reasoning before its content. */
  readonly reasoning?: string | undefined;
}

/** A call the assistant made. */
export interface ChatToolCall {
  readonly id: string;
  readonly name: string;
  /** A JSON object, or what a model wrote in its place: arguments that were cut, or no JSON. */
  readonly argumentsJson: string;
}

/** A function the model may call. */
export interface ChatTool {
  readonly name: string;
  readonly description: string;
  /** A JSON Schema; empty for a function without parameters. */
  readonly parametersJson: string;
}

export interface Conversation {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[] | undefined;
  readonly toolChoice?: ToolChoice | undefined;
  /** True if the template opens the assistant's turn; default true. */
  readonly addGenerationPrompt?: boolean | undefined;
  /** A JSON object of variables beside the template's own; empty or absent: none. */
  readonly templateVariablesJson?: string | undefined;
  /** True if the last message is the beginning of the answer. */
  readonly continueFinalMessage?: boolean | undefined;
}

/** Variables of every template, which no request may change. */
const OWN_VARIABLES: ReadonlySet<string> = new Set([
  ...['messages', 'tools', 'documents', 'add_generation_prompt', 'bos_token', 'eos_token'],
]);

/** @throws RocmForgeError `INVALID_FIELD` for what is not a JSON object, or names a variable that every template is given */
export function templateVariables({
  templateVariablesJson: json = '',
}: Pick<Conversation, 'templateVariablesJson'>): Dict {
  if (json === '') return new Dict();
  const variables = jsonOf(json, 'template_variables_json');
  if (!(variables instanceof Dict))
    return invalid('template_variables_json', 'chat.template_variables_json is not a JSON object');
  for (const name of variables.keys()) {
    if (typeof name !== 'string' || !OWN_VARIABLES.has(name)) continue;
    invalid('template_variables_json', `chat.template_variables_json has ${name}, which is the conversation's own`);
  }
  return variables;
}

/**
 * Templates write a role between markers (`<|` + role + `|>`), so a role is never free text: these are all there are.
 */
const ROLES: ReadonlySet<string> = new Set(['system', 'developer', 'user', 'assistant', 'tool']);

/** A conversation in the form that templates read. Its words of the protocol (roles, `type`) are apart from the users' texts. */
export interface TemplateInput {
  readonly roles: readonly string[];
  /** A dict a message, without its role. */
  readonly messages: readonly Dict[];
  /** A dict a tool, without its type. */
  readonly tools: readonly Dict[];
  /** True if a text of `content` is given as a list of parts. */
  readonly hasContentParts?: boolean | undefined;
}

export interface TemplateInputOptions {
  readonly probe: Pick<
    TemplateProbe,
    'takesArgumentsAsText' | 'needsArgumentsAsObject' | 'needsNineCharacterIds' | 'needsContentParts'
  >;
  readonly absentContent: Value;
}

/** The functions that the model may call. A tool choice of none leaves them in the prompt, whose prefix stays the same. */
export function offeredTools<Tool extends ChatTool>({
  tools = [],
  toolChoice,
}: Pick<Conversation, 'toolChoice'> & { readonly tools?: readonly Tool[] | undefined }): readonly Tool[] {
  return toolChoice?.choice?.value === ToolChoiceMode.NONE ? [] : tools;
}

/** True if the message has calls and no content, which protobuf cannot tell from empty content. */
export function onlyCalls({ content, toolCalls = [] }: ChatMessage): boolean {
  return content === '' && toolCalls.length > 0;
}

/** True if the turn thinks, speaks and calls. */
export function doesAll({ content, reasoning, toolCalls = [] }: ChatMessage): boolean {
  return content !== '' && Boolean(reasoning) && toolCalls.length > 0;
}

/**
 * @param options.probe         what the template does with calls
 * @param options.absentContent what the content of a message is that only calls
 * @throws RocmForgeError `INVALID_FIELD` for no messages, an unknown role or tools whose parameters are not JSON
 */
export function toTemplateInput(conversation: Conversation, options: TemplateInputOptions): TemplateInput {
  const { messages, tools = [] } = conversation;
  if (messages.length === 0) invalid('messages', 'chat.messages is empty');
  const roles = messages.map(({ role }, i) =>
    ROLES.has(role) ? role : invalid(`messages[${i}].role`, `chat role "${role}" is none of ${[...ROLES].join(', ')}`),
  );
  const hasCalls = messages.some(({ toolCalls = [], toolCallId }) => toolCalls.length > 0 || toolCallId);
  const renamed = hasCalls && options.probe.needsNineCharacterIds ? withNineCharacterIds(messages) : messages;
  return {
    roles,
    messages: renamed.map((message) => toMessage(message, options)),
    tools: tools.map(toTool),
    hasContentParts: options.probe.needsContentParts,
  };
}

/** `messages` and `tools` as templates want them. */
export function withProtocolWords(input: TemplateInput): ReadonlyMap<string, Value> {
  const typed = (item: Value) => Dict.of([['type', 'function'], ...(item as Dict).entries()]);
  const messages = input.messages.map((message, i) => {
    const complete = Dict.of([['role', input.roles[i]!], ...message.entries()]);
    const calls = message.get('tool_calls');
    if (calls instanceof Sequence) complete.set('tool_calls', list(calls.items.map(typed)));
    const content = message.get('content');
    if (input.hasContentParts && typeof content === 'string') complete.set('content', list([textPart(content)]));
    return complete;
  });
  return new Map<string, Value>([
    ['messages', list(messages)],
    ['tools', input.tools.length === 0 ? NONE : list(input.tools.map(typed))],
    ['documents', NONE],
  ]);
}

function textPart(text: string): Dict {
  return Dict.of([
    ['type', 'text'],
    ['text', text],
  ]);
}

function toMessage(message: ChatMessage, options: TemplateInputOptions): Dict {
  const { content, name, toolCalls = [], toolCallId, reasoning } = message;
  const dict = Dict.of([['content', onlyCalls(message) ? options.absentContent : content]]);
  if (name) dict.set('name', name);
  if (toolCallId) dict.set('tool_call_id', toolCallId);
  // gpt-oss has a name of its own for it.
  if (reasoning) for (const key of ['reasoning_content', 'thinking']) dict.set(key, reasoning);
  if (toolCalls.length > 0) {
    const calls = toolCalls.map((call) =>
      Dict.of([
        ['id', call.id],
        [
          'function',
          Dict.of([
            ['name', call.name],
            ['arguments', argumentsFor(call.argumentsJson, options.probe)],
          ]),
        ],
      ]),
    );
    dict.set('tool_calls', list(calls));
  }
  return dict;
}

function toTool(tool: ChatTool, index: number): Dict {
  const parameters = tool.parametersJson || '{"type": "object", "properties": {}}';
  return Dict.of([
    [
      'function',
      Dict.of([
        ['name', tool.name],
        ['description', tool.description],
        ['parameters', jsonOf(parameters, `tools[${index}].parameters_json`)],
      ]),
    ],
  ]);
}

/** A tool for the conversations that templates are probed with. */
export const PROBE_TOOLS: readonly Dict[] = [
  toTool({ name: 'probe_of_function', description: '', parametersJson: '' }, 0),
];

function jsonOf(text: string, field: string): Value {
  try {
    return parseJson(text);
  } catch (error) {
    return invalid(field, `chat.${field} is not JSON: ${(error as Error).message}`);
  }
}

function invalid(field: string, message: string): never {
  throw new RocmForgeError('INVALID_FIELD', message, { field: `chat.${field}` });
}
