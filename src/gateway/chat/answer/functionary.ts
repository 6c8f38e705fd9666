import type { CallFormat } from './call-format.js';
import { readArguments } from './json-call.js';
import { readTagName } from './tagged-call.js';

/**
 * `<function=name>{…}</function>`, with the arguments as a JSON object
 * (https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/, custom tools): Functionary 3.1, Llama 3.1 with prompts
 * that ask for it.
 */
export const FUNCTIONARY: CallFormat = {
  openers: ['<function='],
  closers: ['</function>'],
  *read(reading) {
    const { reader } = reading;
    const name = yield* readTagName(reading);
    if (name === '' || !(yield* reader.accept('>'))) return;
    yield* reader.skipSpace();
    if ((yield* reader.peek()) !== '{') return;
    reading.begin(name);
    yield* readArguments(reading);
  },
};
