import { createHash } from 'node:crypto';
import type { ChatMessage } from './template-input.js';

const LENGTH = 9;
const IS_TAKEN = /^[a-zA-Z0-9]{9}$/;

/**
 * The turns with ids of calls that have nine letters or digits: those that have not get one that follows from theirs, the same
 * in each request, so that the prompt's prefix stays. A call without an id gets one by its place; a result without one is that
 * of the first call before it that has none yet.
 */
export function withNineCharacterIds(turns: readonly ChatMessage[]): readonly ChatMessage[] {
  const taken = new Set<string>();
  for (const { toolCalls = [], toolCallId } of turns) {
    for (const id of [...toolCalls.map((call) => call.id), toolCallId ?? '']) if (IS_TAKEN.test(id)) taken.add(id);
  }
  const renamed = new Map<string, string>();
  const nameOf = (id: string): string => {
    if (IS_TAKEN.test(id)) return id;
    let name = renamed.get(id);
    for (let salt = 0; name === undefined; salt++) {
      const candidate = hashed(`${salt} ${id}`);
      if (!taken.has(candidate)) name = candidate;
    }
    taken.add(name);
    renamed.set(id, name);
    return name;
  };
  let calls = 0;
  let open: string[] = [];
  return turns.map((turn) => {
    const { role, toolCalls = [], toolCallId = '' } = turn;
    if (toolCalls.length > 0) {
      const named = toolCalls.map((call) => ({ ...call, id: nameOf(call.id || `#${calls++}`) }));
      open = named.map(({ id }) => id);
      return { ...turn, toolCalls: named };
    }
    if (role !== 'tool') return turn;
    const id = toolCallId === '' ? (open[0] ?? nameOf('#')) : nameOf(toolCallId);
    open = open.filter((other) => other !== id);
    return { ...turn, toolCallId: id };
  });
}

function hashed(id: string): string {
  const number = createHash('sha256').update(id).digest().readBigUInt64BE();
  return number.toString(36).padStart(LENGTH, '0').slice(-LENGTH);
}
