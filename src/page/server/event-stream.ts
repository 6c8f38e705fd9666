/** End of a stream of OpenAI's. */
const DONE = '[DONE]';

/** A stream ended before its last event. */
export class CutStreamError extends Error {
  constructor() {
    super('the connection to the server was lost');
  }
}

/**
 * The data of server-sent events, as it comes; comments and names of events are skipped.
 *
 * @throws CutStreamError if the stream ends without `[DONE]`
 */
export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new CutStreamError();
      const text = decoder.decode(value, { stream: true });
      const from = Math.max(0, rest.length - 1);
      rest += text;
      // Nothing before the last chunk can end an event: a long event is not searched again for each of its chunks.
      if (rest.indexOf('\n\n', from) < 0) continue;
      const events = rest.split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const data = dataOf(event);
        if (data === DONE) return;
        if (data !== '') yield data;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

const dataOf = (event: string): string =>
  event
    .split('\n')
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).replace(/^ /, ''))
    .join('\n');
