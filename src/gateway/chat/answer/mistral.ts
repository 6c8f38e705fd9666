import type { CallFormat, CallReading } from './call-format.js';
import { readArguments, readJsonCalls } from './json-call.js';
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
    // A list of calls, or one that has lost its list.
    if (yield* reader.comes('[', '{')) yield* readJsonCalls(reading);
    else yield* readNamed(reading);
  },
};

function* readNamed(reading: CallReading): Reading<void> {
  const { reader, turn, tools } = reading;
  const name = yield* readWord(reading);
  if (name === '') return;
  const id = (yield* reader.accept('[CALL_ID]')) ? yield* readWord(reading) : undefined;
  const hasMark = (yield* reader.accept('[ARGS]')) !== undefined;
  const isCall = hasMark || tools.some((tool) => tool.name === name);
  yield* reader.skipSpace();
  if ((yield* reader.peek()) === '{') {
    reading.begin(name, id);
    yield* readArguments(reading);
    return;
  }
  // A call without arguments has its end here.
  const hasEnded = (yield* reader.peek()) === undefined || (yield* reader.comes('[TOOL_CALLS]')) !== undefined;
  if (!isCall || !hasEnded || (reader.isCutHere && !hasMark)) return;
  reading.begin(name, id);
  if (!reader.isCutHere) turn.endCall();
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
