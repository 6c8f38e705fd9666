import { Template } from '@huggingface/jinja';
import { RocmForgeError } from '../../shared/errors.js';
import type { GgufMetadata } from '../../shared/gguf/metadata.js';
import { checkWellFormed, type Tokenizer } from '../tokenizer/tokenizer.js';
import { type ChatPrompt, InjectionGuard, type TemplateValue } from './injection-guard.js';

/** One turn; the fields of `rocmforge.v1.ChatMessage`. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
  readonly name?: string | undefined;
  readonly toolCalls?: readonly ChatToolCall[] | undefined;
  readonly toolCallId?: string | undefined;
}

/** A call the assistant made. */
export interface ChatToolCall {
  readonly id: string;
  readonly name: string;
  /** A JSON object. */
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
  /** Whether the template opens the assistant's turn; default true. */
  readonly addGenerationPrompt?: boolean | undefined;
}

/**
 * Templates write a role between markers (`<|` + role + `|>`), so a role is never free text: these are all there are.
 */
const ROLES: ReadonlySet<string> = new Set(['system', 'developer', 'user', 'assistant', 'tool']);

const MAX_DEPTH = 100;

/** The chat template of a model: a conversation in, one prompt out. */
export class ChatTemplate {
  private readonly guard: InjectionGuard;
  private readonly source: string | undefined;
  private readonly toolSource: string | undefined;
  private readonly compiled = new Map<string, Template>();
  private readonly tokens: Readonly<Record<'bos_token' | 'eos_token', string>>;

  /** Never throws for a missing or broken template: a model without one still completes text. */
  constructor(metadata: GgufMetadata, tokenizer: Tokenizer) {
    this.guard = new InjectionGuard(tokenizer.markerTexts());
    this.source = metadata.string('tokenizer.chat_template');
    this.toolSource = metadata.string('tokenizer.chat_template.tool_use');
    const name = (id: number | undefined) => (id === undefined ? '' : tokenizer.tokenText(id));
    this.tokens = { bos_token: name(tokenizer.bosId), eos_token: name(tokenizer.eosId) };
  }

  /** Whether the model file has a template. */
  get isAvailable(): boolean {
    return this.source !== undefined || this.toolSource !== undefined;
  }

  /**
   * Renders a conversation. Names of control tokens in anything a user supplied stay plain text.
   *
   * @throws RocmForgeError `CHAT_TEMPLATE_MISSING`; `CHAT_TEMPLATE_FAILED` with the template's own words;
   *   `INVALID_FIELD` for an unknown role, a lone surrogate or arguments that are no JSON
   */
  render(conversation: Conversation): ChatPrompt {
    const source = this.sourceFor(conversation);
    const input = toTemplateInput(conversation, takesArgumentsAsText(source));
    const strings = [...stringsOf(input.userValue)];
    for (const text of strings) checkWellFormed(text, 'chat.messages');
    const sentinel = this.guard.chooseSentinel([source, ...strings]);
    const render = (borders: boolean) => {
      const value = this.guard.mark(input.userValue, sentinel, { borders });
      const rendered = this.run(source, withRoles(value, input.roles), conversation.addGenerationPrompt ?? true);
      return this.guard.unmark(rendered, sentinel);
    };
    const prompt = render(false);
    // Marking the ends of the strings as well keeps a name from being put together out of a template's and a user's
    // parts. A template that looks at the ends ("startswith") renders something else then: its word counts.
    const bordered = valueOrUndefined(() => render(true));
    return bordered?.text === prompt.text ? bordered : prompt;
  }

  /** Renders and encodes, with exactly one BOS where the model wants one. Errors as {@link render}. */
  encode(conversation: Conversation, tokenizer: Tokenizer): Int32Array {
    const { text, breaks } = this.render(conversation);
    return tokenizer.encodePrompt(text, { parseSpecial: true, addSpecial: true, breaks });
  }

  private sourceFor(conversation: Conversation): string {
    const hasTools = (conversation.tools?.length ?? 0) > 0;
    const source = (hasTools ? this.toolSource : undefined) ?? this.source ?? this.toolSource;
    if (source !== undefined) return source;
    throw new RocmForgeError(
      'CHAT_TEMPLATE_MISSING',
      'the model file has no "tokenizer.chat_template"; send the prompt as text instead',
    );
  }

  private run(source: string, input: TemplateInput, addGenerationPrompt: boolean): string {
    try {
      let template = this.compiled.get(source);
      if (template === undefined) {
        template = new Template(source);
        this.compiled.set(source, template);
      }
      return template.render({ ...this.tokens, ...input, add_generation_prompt: addGenerationPrompt });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new RocmForgeError('CHAT_TEMPLATE_FAILED', `the chat template failed: ${message}`, {}, { cause: error });
    }
  }
}

type TemplateInput = { readonly messages: TemplateValue; readonly tools: TemplateValue };

/** The user's strings apart from the roles, which templates compare and print. */
interface SplitInput {
  readonly roles: readonly string[];
  readonly userValue: { readonly messages: readonly TemplateValue[]; readonly tools: TemplateValue };
}

function toTemplateInput(conversation: Conversation, argumentsAsText: boolean): SplitInput {
  const { messages, tools = [] } = conversation;
  if (messages.length === 0) invalid('messages', 'chat.messages is empty');
  return {
    roles: messages.map(({ role }, i) =>
      ROLES.has(role)
        ? role
        : invalid(`messages[${i}].role`, `chat role "${role}" is none of ${[...ROLES].join(', ')}`),
    ),
    userValue: {
      messages: messages.map((message, i) => toTemplateMessage(message, i, argumentsAsText)),
      tools: tools.length === 0 ? null : tools.map(toTemplateTool),
    },
  };
}

function toTemplateMessage(message: ChatMessage, index: number, argumentsAsText: boolean): TemplateValue {
  const { content, name, toolCalls = [], toolCallId } = message;
  return {
    content,
    ...(name ? { name } : {}),
    ...(toolCallId ? { tool_call_id: toolCallId } : {}),
    ...(toolCalls.length === 0
      ? {}
      : {
          tool_calls: toolCalls.map((call, i) => ({
            id: call.id,
            function: {
              name: call.name,
              arguments: argumentsAsText
                ? call.argumentsJson
                : parseJson(call.argumentsJson, `messages[${index}].tool_calls[${i}].arguments_json`),
            },
          })),
        }),
  };
}

function toTemplateTool(tool: ChatTool, index: number): TemplateValue {
  const parameters = tool.parametersJson || '{"type": "object", "properties": {}}';
  return {
    function: {
      name: tool.name,
      description: tool.description,
      parameters: parseJson(parameters, `tools[${index}].parameters_json`),
    },
  };
}

/** Puts back the words that templates compare: the roles, and `type`, which is always "function". */
function withRoles(value: TemplateValue, roles: readonly string[]): TemplateInput {
  const { messages, tools } = value as { messages: Readonly<Record<string, TemplateValue>>[]; tools: TemplateValue };
  const typed = (item: TemplateValue) => ({ type: 'function', ...(item as Record<string, TemplateValue>) });
  return {
    messages: messages.map((message, i) => ({
      role: roles[i]!,
      ...message,
      ...(Array.isArray(message.tool_calls) ? { tool_calls: message.tool_calls.map(typed) } : {}),
    })),
    tools: Array.isArray(tools) ? tools.map(typed) : null,
  };
}

/**
 * Whether the template pastes a call's arguments as they are (DeepSeek) instead of serialising or walking an object,
 * which is what most do.
 */
function takesArgumentsAsText(source: string): boolean {
  return (
    /arguments['"]?\]?\s*\+/.test(source) && !/arguments['"]?\]?\s*(\|\s*(tojson|items)|\.items|is\s)/.test(source)
  );
}

/** @throws RocmForgeError `INVALID_FIELD` for JSON so deep that rendering it would exhaust the stack */
function* stringsOf(value: TemplateValue, depth = 0): Generator<string> {
  if (depth > MAX_DEPTH) invalid('tools', `chat JSON is nested deeper than ${MAX_DEPTH} levels`);
  if (typeof value === 'string') yield value;
  else if (Array.isArray(value)) for (const item of value) yield* stringsOf(item, depth + 1);
  else if (value !== null && typeof value === 'object') {
    for (const [key, item] of Object.entries(value)) {
      yield key;
      yield* stringsOf(item, depth + 1);
    }
  }
}

function parseJson(text: string, field: string): TemplateValue {
  try {
    return JSON.parse(text) as TemplateValue;
  } catch (error) {
    return invalid(field, `chat.${field} is not JSON: ${(error as Error).message}`);
  }
}

function valueOrUndefined<T>(compute: () => T): T | undefined {
  try {
    return compute();
  } catch {
    return undefined;
  }
}

function invalid(field: string, message: string): never {
  throw new RocmForgeError('INVALID_FIELD', message, { field: `chat.${field}` });
}
