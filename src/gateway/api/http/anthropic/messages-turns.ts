import { jsonText } from '../../../../lib/json/exact-json.js';
import { ChatMessage } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { type Fields, TEXT_OR_PARTS } from '../fields.js';
import { separatorOf } from '../text-parts.js';

/** A line of Claude Code's that changes with each request and says nothing to the model. */
const BILLING_HEADER = /^x-anthropic-billing-header:[^\n]*(?:\n|$)/i;

/** The system text, without what would give each request a prefix of its own. */
export function systemOf(fields: Fields): string {
  const given = fields.any('system');
  if (given === undefined) return '';
  if (typeof given === 'string') return given.replace(BILLING_HEADER, '');
  const texts = (fields.objects('system') ?? []).map(textBlock);
  return texts.map((text) => text.replace(BILLING_HEADER, '')).join('');
}

/** A result of a call: a text, or blocks that are texts. */
function resultOf(fields: Fields): string {
  if (typeof fields.any('content') === 'string') return fields.string('content') as string;
  return (fields.objects('content', TEXT_OR_PARTS) ?? []).map(textBlock).join(separatorOf('tool'));
}

function textBlock(block: Fields): string {
  if (block.string('type') !== 'text')
    block.refuse('type', `is ${JSON.stringify(block.any('type'))}; only text is supported here`);
  const text = block.string('text') ?? block.refuse('text', 'is missing');
  endBlock(block);
  return text;
}

/** Nobody need ask for beginnings to be kept, and what is cited is for the reader. */
export function endBlock(block: Fields): void {
  block.ignore('cache_control', 'citations');
  block.end();
}

const ROLES: ReadonlySet<string> = new Set(['user', 'assistant', 'system']);

/** A turn; a user's results of calls are turns of their own here, which stand in front as right behind the calls. */
export function turnsOf(message: Fields): ChatMessage[] {
  const role = message.string('role') ?? message.refuse('role', 'is missing');
  // Instructions that come later stand where they came.
  if (!ROLES.has(role)) message.refuse('role', `must be one of ${[...ROLES].join(', ')}`);
  const results: ChatMessage[] = [];
  const turn = ChatMessage.fromPartial({ role });
  if (typeof message.any('content') === 'string') turn.content = message.string('content') as string;
  else {
    for (const block of message.objects('content', TEXT_OR_PARTS) ?? message.refuse('content', 'is missing')) {
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
  if (type === 'text') turn.content += (turn.content === '' ? '' : separatorOf(turn.role)) + textBlock(block);
  else if (type === 'tool_use' && isOf('assistant')) {
    // Arguments that are not an object are returned unchanged, and those of a call that was cut as text.
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
  } else if (type === 'redacted_thinking' && isOf('assistant')) {
    // Another server's, which nobody here can read.
    block.ignore('data');
    endBlock(block);
  } else if (type === 'tool_result' && isOf('user')) {
    const toolCallId = block.string('tool_use_id') ?? block.refuse('tool_use_id', 'is missing');
    const content = block.any('content') === undefined ? '' : resultOf(block);
    // No chat template has a place for it; what went wrong is in the text.
    block.boolean('is_error');
    endBlock(block);
    results.push(ChatMessage.fromPartial({ role: 'tool', toolCallId, content }));
  } else block.refuse('type', `is ${JSON.stringify(type)}, which is not supported in ${turn.role} messages`);
}
