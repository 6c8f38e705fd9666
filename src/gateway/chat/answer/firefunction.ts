import type { CallFormat } from './call-format.js';
import { readJsonCalls } from './json-call.js';

/** `functools[{"name": …, "arguments": {…}}, …]` (https://huggingface.co/fireworks-ai/llama-3-firefunction-v2): Firefunction 2. */
export const FIREFUNCTION: CallFormat = {
  openers: ['functools'],
  closers: [],
  *read(reading) {
    if (yield* reading.reader.comes('[')) yield* readJsonCalls(reading);
  },
};
