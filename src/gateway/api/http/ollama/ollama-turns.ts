import { jsonText } from '../../../../lib/json/exact-json.js';
import { ChatMessage, type ToolCall } from '../../../../shared/generated/rocmforge/v1/inference.js';
import type { Fields } from '../fields.js';

/**
 * The messages of a conversation. Ollama's calls need no ids, but some chat templates do: calls without one are numbered, and
 * results without one belong to the earliest call that has none yet, of the same function if they name it.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `NOT_IMPLEMENTED`, naming the field
 */
export function ollamaTurns(messages: readonly Fields[]): ChatMessage[] {
  const pending: ToolCall[] = [];
  let calls = 0;
  return messages.map((fields) => {
    const turn = ChatMessage.fromPartial({
      role: fields.string('role') ?? fields.refuse('role', 'is missing'),
      content: fields.string('content') ?? '',
      reasoning: fields.string('thinking') ?? '',
      name: fields.string('tool_name') ?? fields.string('name') ?? '',
      toolCallId: fields.string('tool_call_id') ?? '',
    });
    refuseImages(fields);
    for (const call of fields.objects('tool_calls') ?? []) {
      const read = callOf(call, calls);
      calls += 1;
      turn.toolCalls.push(read);
      pending.push(read);
    }
    if (turn.role === 'tool') {
      const at = pending.findIndex(({ id, name }) =>
        turn.toolCallId === '' ? turn.name === '' || name === turn.name : id === turn.toolCallId,
      );
      const [call] = at === -1 ? [] : pending.splice(at, 1);
      if (call !== undefined) turn.toolCallId = call.id;
    }
    fields.ignore('name');
    fields.end();
    return turn;
  });
}

/** @throws RocmForgeError `NOT_IMPLEMENTED` if there are images */
export function refuseImages(fields: Fields): void {
  fields.mustBeEmpty('images');
}

function callOf(call: Fields, number: number): ToolCall {
  const called = call.object('function') ?? call.refuse('function', 'is missing');
  const given = called.any('arguments') ?? {};
  const read = {
    id: call.string('id') ?? `call${String(number).padStart(5, '0')}`,
    name: called.string('name') ?? called.refuse('name', 'is missing'),
    // Arguments that are not an object are accepted as they were returned, and those of a call that was cut as text.
    argumentsJson: typeof given === 'string' ? given : jsonText(given),
  };
  called.ignore('index', 'description');
  called.end();
  call.ignore('type');
  call.end();
  return read;
}
