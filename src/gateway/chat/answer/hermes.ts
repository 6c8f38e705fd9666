import type { CallFormat } from './call-format.js';
import { readJsonCalls } from './json-call.js';

/**
 * `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, each call in tags of its own, or several
 * (https://github.com/NousResearch/Hermes-Function-Calling): Hermes, Qwen 2.5, Qwen 3, Granite 4.
 */
export const HERMES: CallFormat = {
  openers: ['<tool_call>'],
  closers: ['</tool_call>'],
  *read(reading) {
    yield* readJsonCalls(reading);
  },
};
