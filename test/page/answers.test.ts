import { expect, it } from 'vitest';
import { AnswerReader, type ChatEvent } from '../../src/page/chat/answer-reader.js';
import type { Message } from '../../src/page/chat/conversation.js';
import { CutStreamError, eventsOf } from '../../src/page/server/event-stream.js';

const message: Message = {
  ...{ id: 'a', conversation: 'c', role: 'assistant', created: 0, saved: 0, content: '', reasoning: '' },
  ...{ toolCalls: [], state: 'streaming', model: 'demo', marks: [] },
};
const delta = (parts: object): ChatEvent => ({ choices: [{ delta: parts }] });

function read(events: readonly ChatEvent[], begun: Message = message): Message {
  const reader = new AnswerReader(begun, 0);
  for (const [i, event] of events.entries()) reader.read(event, 100 * (i + 1));
  return reader.snapshot('complete');
}

it('joins reasoning, text and calls', () => {
  const { reasoning, content, toolCalls } = read([
    delta({ reasoning_content: 'hm' }),
    delta({ content: 'a' }),
    delta({ tool_calls: [{ index: 0, id: 'x', function: { name: 'f', arguments: '{"a"' } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }),
    delta({ content: 'b' }),
  ]);
  expect({ reasoning, content, toolCalls }).toEqual({
    reasoning: 'hm',
    content: 'ab',
    toolCalls: [{ id: 'x', name: 'f', args: '{"a":1}' }],
  });
});

it('marks the places at which executors were lost, with durations', () => {
  const { marks } = read([
    delta({ reasoning_content: 'hm' }),
    { recovery: { state: 'lost' } },
    { recovery: { state: 'resumed', ms: 12 } },
    delta({ content: 'abc' }),
    { recovery: { state: 'lost' } },
  ]);
  expect(marks).toEqual([
    { part: 'reasoning', at: 2, ms: 12 },
    { part: 'content', at: 3 },
  ]);
});

it('continues a text with its marks', () => {
  const begun: Message = { ...message, content: 'abc', marks: [{ part: 'content', at: 1, ms: 5 }] };
  const { content, marks } = read([delta({ content: 'de' }), { recovery: { state: 'lost' } }], begun);
  expect(content).toBe('abcde');
  expect(marks.map(({ at }) => at)).toEqual([1, 5]);
});

it('counts tokens, the cache and drafts, and computes the rate of a stream that was stopped', () => {
  const usage = (tokens: number) => ({
    ...{ prompt_tokens: 9, completion_tokens: tokens, prompt_tokens_details: { cached_tokens: 4 } },
    completion_tokens_details: { accepted_prediction_tokens: 2, rejected_prediction_tokens: 1, reasoning_tokens: 3 },
  });
  const events = [1, 2, 3].map((tokens) => ({ ...delta({ content: 'x' }), usage: usage(tokens) }));
  expect(read(events).stats).toEqual({
    ...{ promptTokens: 9, cachedTokens: 4, tokens: 3, reasoningTokens: 3, drafted: 3, accepted: 2 },
    ...{ firstTokenMs: 100, tokensPerSecond: 10 },
  });
  expect(read([...events, { timings: { predicted_per_second: 7 } }]).stats?.tokensPerSecond).toBe(7);
});

it('throws the error of an error event', () => {
  const error = { message: 'no', code: 'INTERNAL', param: 'x' };
  expect(() => read([{ error }])).toThrowError(
    expect.objectContaining({ message: 'no', code: 'INTERNAL', param: 'x' }),
  );
});

const streamOf = (chunks: readonly string[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk));
      controller.close();
    },
  });
async function all(chunks: readonly string[]): Promise<readonly string[]> {
  const events: string[] = [];
  for await (const data of eventsOf(streamOf(chunks))) events.push(data);
  return events;
}

it.each([1, 2, 5, 1000])('reads events in chunks of %i characters, without comments', async (size) => {
  const text = ': waiting\n\ndata: {"a":1}\n\ndata: {"b":\ndata: 2}\n\ndata: [DONE]\n\n';
  const chunks = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
  expect(await all(chunks)).toEqual(['{"a":1}', '{"b":\n2}']);
});

it('reports a stream that is cut', async () => {
  await expect(all(['data: 1\n\n'])).rejects.toThrow(CutStreamError);
});
