import type { CallFormat } from './call-format.js';
import { readFunctionCall } from './qwen-coder.js';

/**
 * `<seed:tool_call><function=name>`, then each argument as `<parameter=key>…</parameter>`, then `</function></seed:tool_call>`:
 * Seed-OSS (the model's chat template), whose lists and objects are Python's.
 */
export const SEED_OSS: CallFormat = {
  openers: ['<seed:tool_call>'],
  closers: ['</function>', '</seed:tool_call>'],
  *read(reading) {
    yield* readFunctionCall(reading, {
      valueEnds: ['</parameter>'],
      hasLineBreaks: false,
      callEnds: ['</function>', '</seed:tool_call>'],
      callBegin: '<seed:tool_call>',
    });
  },
};
