import type { CallFormat } from './call-format.js';
import { readJsonCall } from './json-call.js';

/**
 * `{"name": …, "parameters": {…}}` as the whole answer, several with `;` between, with or without `<|python_tag|>` in front
 * (https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/): Llama 3.1 to 3.3. An answer that happens to be JSON
 * is not a call: the name must be that of a function which was offered. What else stands behind `<|python_tag|>` is content.
 */
export const LLAMA: CallFormat = {
  openers: ['<|python_tag|>'],
  closers: [],
  isBare: true,
  *read(reading) {
    const { reader, tools } = reading;
    const isOffered = (name: string) => tools.some((tool) => tool.name === name);
    yield* reader.skipSpace();
    yield* readJsonCall(reading, isOffered);
    while (!reader.isHolding && (yield* reader.peek()) !== undefined) {
      const hasMore = yield* reading.attempt(function* () {
        yield* reader.skipSpace();
        yield* reader.accept(';');
        yield* reader.skipSpace();
        yield* readJsonCall(reading, isOffered);
      });
      if (!hasMore) return;
    }
  },
};
