import type { CallFormat, CallReading } from './call-format.js';
import { readTaggedArguments, readTagName, type TagSet } from './tagged-call.js';
import type { Reading } from './text-reader.js';

const FUNCTION = '<function=';

/**
 * `<tool_call><function=name>`, then each argument as `<parameter=key>…</parameter>`, then `</function></tool_call>`, a line
 * each: Qwen 3 Coder, Qwen 3.5, Nemotron 3 (the models' chat templates). The outer tag is sometimes forgotten.
 */
export const QWEN_CODER: CallFormat = {
  openers: ['<tool_call>', FUNCTION],
  closers: ['</function>', '</tool_call>'],
  *read(reading, opener) {
    yield* readFunctionCall(
      reading,
      {
        valueEnds: ['\n</parameter>', '</parameter>'],
        hasLineBreaks: true,
        callEnds: ['</function>', '</tool_call>'],
        callBegin: '<tool_call>',
      },
      opener === FUNCTION,
    );
  },
};

/** Reads `<function=name>` and its parameters. @param isOpen whether `<function=` was read */
export function* readFunctionCall(
  reading: CallReading,
  tags: Omit<TagSet, 'keyBegin' | 'keyEnd'>,
  isOpen = false,
): Reading<void> {
  const { reader } = reading;
  if (!isOpen) {
    yield* reader.skipSpace();
    if (!(yield* reader.accept(FUNCTION))) return;
  }
  const name = yield* readTagName(reading);
  if (name === '' || !(yield* reader.accept('>'))) return;
  reading.begin(name);
  yield* readTaggedArguments(reading, name, { keyBegin: '<parameter=', keyEnd: '>', ...tags });
}
