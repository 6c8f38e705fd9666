import { jsonText } from '../../../../shared/exact-json.js';
import {
  type ChatInput,
  ChatMessage,
  type Tool,
  type ToolChoice,
  ToolChoiceMode,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import { Fields } from '../fields.js';
import type { JsonGeneration } from '../request.js';
import { maxTokensOf, messageOf, samplingOf, stopOf } from '../sampling-fields.js';

/**
 * Reads a request of Anthropic's `POST /v1/messages` (https://docs.anthropic.com/en/api/messages).
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function messagesRequest(body: unknown): JsonGeneration {
  const fields = new Fields(body);
  if (!fields.has('max_tokens')) fields.refuse('max_tokens', 'is missing');
  return readMessages(fields);
}

/** Reads one of `POST /v1/messages/count_tokens`: the same, and nothing need say where it ends. @throws as {@link messagesRequest} */
export function countRequest(body: unknown): JsonGeneration {
  return readMessages(new Fields(body));
}

function readMessages(fields: Fields): JsonGeneration {
  const stop = stopOf(fields, maxTokensOf(fields, 'max_tokens'));
  const sequences = (fields.strings('stop_sequences') ?? []).filter((text) => text !== '');
  const message = messageOf(fields, {
    input: { $case: 'chat', value: conversationOf(fields) },
    sampling: samplingOf(fields),
    stop: { ...stop, strings: [...stop.strings, ...sequences] },
    output: {},
  });
  // One message is answered with one.
  fields.mustBe('n', 1);
  fields.mustBe('service_tier', 'auto', 'standard_only');
  // What only sorts requests for whoever pays for them; prompts' beginnings are kept without being asked to.
  fields.ignore('metadata', 'cache_control');
  // Clients manage their contexts themselves where a server does not.
  fields.ignore('context_management');
  outputOf(fields);
  fields.unsupported('container', 'mcp_servers');
  const isStream = fields.boolean('stream') ?? false;
  fields.end();
  const form = { kind: 'messages', isStream, includeUsage: true, includeTokens: false } as const;
  return {
    messages: [message],
    form: { ...form, logprobs: undefined, echo: false, timingsPerToken: false, returnProgress: false },
  };
}

function conversationOf(fields: Fields): ChatInput {
  const given = fields.objects('messages') ?? fields.refuse('messages', 'is missing');
  const system = fields.any('system') === undefined ? '' : systemOf(fields);
  const messages = given.flatMap(turnsOf);
  const last = messages.at(-1);
  const isBegun = last?.role === 'assistant' && last.toolCalls.length === 0 && last.reasoning === '';
  return {
    messages: system === '' ? messages : [ChatMessage.fromPartial({ role: 'system', content: system }), ...messages],
    tools: (fields.objects('tools') ?? []).map(toolOf),
    ...choiceOf(fields),
    addGenerationPrompt: undefined,
    continueFinalMessage: isBegun,
    templateVariablesJson: thinkingOf(fields),
  };
}

/** The first line of a block of Claude Code's that changes with each request and says nothing to the model. */
const BILLING_HEADER = /^x-anthropic-billing-header:/i;

/** The system text, without what would give each request a prefix of its own. */
function systemOf(fields: Fields): string {
  if (typeof fields.any('system') === 'string') return fields.string('system') as string;
  const texts = (fields.objects('system') ?? []).map(textBlock);
  return texts.filter((text) => !BILLING_HEADER.test(text)).join('');
}

/** A text, or blocks that are texts. */
function textOf(fields: Fields, name: string): string {
  if (typeof fields.any(name) === 'string') return fields.string(name) as string;
  return (fields.objects(name) ?? []).map(textBlock).join('');
}

function textBlock(block: Fields): string {
  block.mustBe('type', 'text');
  const text = block.string('text') ?? block.refuse('text', 'is missing');
  endBlock(block);
  return text;
}

/** Nobody need ask for beginnings to be kept, and what is cited is for the reader. */
function endBlock(block: Fields): void {
  block.ignore('cache_control', 'citations');
  block.end();
}

/** A turn; a user's results of calls are turns of their own here, which stand in front as right behind the calls. */
function turnsOf(message: Fields): ChatMessage[] {
  const role = message.string('role') ?? message.refuse('role', 'is missing');
  if (role !== 'user' && role !== 'assistant') message.refuse('role', 'is neither "user" nor "assistant"');
  const results: ChatMessage[] = [];
  const turn = ChatMessage.fromPartial({ role });
  if (typeof message.any('content') === 'string') turn.content = message.string('content') as string;
  else {
    for (const block of message.objects('content') ?? message.refuse('content', 'is missing')) {
      readBlock(block, turn, results);
    }
  }
  message.end();
  const isResultsAlone = results.length > 0 && turn.content === '';
  return isResultsAlone ? results : [...results, turn];
}

/** Adds a block to its turn, or a result of a call to the turns in front of it. */
function readBlock(block: Fields, turn: ChatMessage, results: ChatMessage[]): void {
  const type = block.string('type');
  const isOf = (role: string): boolean => turn.role === role;
  if (type === 'text') turn.content += textBlock(block);
  else if (type === 'tool_use' && isOf('assistant')) {
    // What a model wrote in place of an object is answered as it is, and of a call that was cut as text.
    const input = block.any('input') ?? {};
    turn.toolCalls.push({
      id: block.string('id') ?? block.refuse('id', 'is missing'),
      name: block.string('name') ?? block.refuse('name', 'is missing'),
      argumentsJson: typeof input === 'string' ? input : jsonText(input),
    });
    endBlock(block);
  } else if (type === 'thinking' && isOf('assistant')) {
    turn.reasoning += block.string('thinking') ?? block.refuse('thinking', 'is missing');
    // It says that the text is the model's own, which nobody here can tell.
    block.ignore('signature');
    endBlock(block);
  } else if (type === 'tool_result' && isOf('user')) {
    const toolCallId = block.string('tool_use_id') ?? block.refuse('tool_use_id', 'is missing');
    const content = block.any('content') === undefined ? '' : textOf(block, 'content');
    // No chat template has a place for it; what went wrong is in the text.
    block.boolean('is_error');
    endBlock(block);
    results.push(ChatMessage.fromPartial({ role: 'tool', toolCallId, content }));
  } else block.refuse('type', `is ${JSON.stringify(type)}, which is not taken in a turn of the ${turn.role}`);
}

function toolOf(tool: Fields): Tool {
  tool.mustBe('type', 'custom');
  const schema = tool.any('input_schema') ?? tool.refuse('input_schema', 'is missing');
  const read = {
    name: tool.string('name') ?? tool.refuse('name', 'is missing'),
    description: tool.string('description') ?? '',
    parametersJson: jsonText(schema),
    strict: tool.boolean('strict') ?? false,
  };
  endBlock(tool);
  return read;
}

const MODES: Readonly<Record<string, ToolChoiceMode>> = {
  auto: ToolChoiceMode.AUTO,
  any: ToolChoiceMode.REQUIRED,
  none: ToolChoiceMode.NONE,
};

function choiceOf(fields: Fields): Pick<ChatInput, 'toolChoice' | 'parallelToolCalls'> {
  const choice = fields.object('tool_choice');
  if (choice === undefined) return { toolChoice: undefined, parallelToolCalls: undefined };
  const type = choice.string('type') ?? choice.refuse('type', 'is missing');
  const isAlone = choice.boolean('disable_parallel_tool_use');
  const parallelToolCalls = isAlone === undefined ? undefined : !isAlone;
  const chosen = (): ToolChoice['choice'] => {
    if (type === 'tool')
      return { $case: 'function', value: choice.string('name') ?? choice.refuse('name', 'is missing') };
    const value = Object.hasOwn(MODES, type) ? MODES[type] : undefined;
    return value === undefined
      ? choice.refuse('type', 'is none of "auto", "any", "tool" and "none"')
      : { $case: 'mode', value };
  };
  const toolChoice = { choice: chosen() };
  choice.end();
  return { toolChoice, parallelToolCalls };
}

/** How much effort an answer is worth, which no template is told. */
function outputOf(fields: Fields): void {
  const output = fields.object('output_config');
  output?.ignore('effort');
  output?.end();
}

/** Whether the model thinks, as the variable that templates know. */
function thinkingOf(fields: Fields): string {
  const thinking = fields.object('thinking');
  if (thinking === undefined) return '';
  const type = thinking.string('type');
  // How long it thinks is bounded by all that it may write alone.
  thinking.integer('budget_tokens', 0, Number.MAX_SAFE_INTEGER);
  thinking.ignore('display');
  if (type !== 'adaptive' && type !== 'enabled' && type !== 'disabled')
    thinking.refuse('type', 'is taken with "adaptive", "enabled" or "disabled" alone');
  thinking.end();
  return JSON.stringify({ enable_thinking: type !== 'disabled' });
}
