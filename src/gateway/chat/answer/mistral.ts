import type { CallFormat, CallReading } from './call-format.js';
import { readArguments, readJsonCall } from './json-call.js';
import type { Reading } from './text-reader.js';

/**
 * `[TOOL_CALLS][{"name": …, "arguments": {…}}, …]`, and since tokenizer v11 `[TOOL_CALLS]name[ARGS]{…}` for each call, with
 * `[CALL_ID]id` in it or not (https://docs.mistral.ai/capabilities/function_calling/): Mistral, Nemo, Small, Devstral.
 */
export const MISTRAL: CallFormat = {
  openers: ['[TOOL_CALLS]'],
  closers: [],
  markers: ['[ARGS]', '[CALL_ID]'],
  *read(reading) {
    const { reader } = reading;
    yield* reader.skipSpace();
    if (yield* reader.accept('[')) yield* readList(reading);
    else yield* readNamed(reading);
  },
};

function* readList(reading: CallReading): Reading<void> {
  const { reader } = reading;
  yield* reader.skipSpace();
  yield* readJsonCall(reading);
  while (!reader.isHolding) {
    yield* reader.skipSpace();
    if ((yield* reader.peek()) === undefined || (yield* reader.accept(']'))) return;
    const hasMore = yield* reading.attempt(function* () {
      if (!(yield* reader.accept(','))) return;
      yield* reader.skipSpace();
      yield* readJsonCall(reading);
    });
    if (!hasMore) return;
  }
}

function* readNamed(reading: CallReading): Reading<void> {
  const { reader } = reading;
  const name = yield* readWord(reading);
  if (name === '') return;
  const id = (yield* reader.accept('[CALL_ID]')) ? yield* readWord(reading) : undefined;
  yield* reader.accept('[ARGS]');
  yield* reader.skipSpace();
  if ((yield* reader.peek()) !== '{') return;
  reading.begin(name, id);
  yield* readArguments(reading);
}

/** A name or an id: up to a bracket, a brace or a space. */
function* readWord({ reader }: CallReading): Reading<string> {
  let word = '';
  yield* reader.readAs(
    (unit) => (unit > 0x20 && !'[]{}"<'.includes(String.fromCharCode(unit)) ? 'on' : 'stop'),
    (piece) => {
      word += piece;
    },
  );
  return word;
}
