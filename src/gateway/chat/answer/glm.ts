import type { CallFormat } from './call-format.js';
import { readTaggedArguments, readTagName } from './tagged-call.js';

const KEY_BEGIN = '<arg_key>';
const CALL_END = '</tool_call>';

/**
 * `<tool_call>name`, then each argument as `<arg_key>…</arg_key><arg_value>…</arg_value>`, then `</tool_call>`: GLM 4.5 to 4.7
 * (the models' chat templates).
 */
export const GLM: CallFormat = {
  openers: ['<tool_call>'],
  closers: [CALL_END],
  markers: [KEY_BEGIN, '</arg_key>', '<arg_value>', '</arg_value>'],
  *read(reading) {
    const { reader } = reading;
    yield* reader.skipSpace();
    const name = yield* readTagName(reading);
    if (name === '' || name.startsWith('{')) return;
    yield* reader.skipSpace();
    // A call without arguments has its end here.
    if (!(yield* reader.comes(KEY_BEGIN, CALL_END))) return;
    reading.begin(name);
    yield* readTaggedArguments(reading, name, {
      keyBegin: KEY_BEGIN,
      keyEnd: '</arg_key>',
      valueBegin: '<arg_value>',
      valueEnds: ['</arg_value>'],
      hasLineBreaks: false,
      callEnds: [CALL_END],
      callBegin: '<tool_call>',
    });
  },
};
