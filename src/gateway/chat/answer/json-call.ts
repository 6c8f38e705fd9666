import type { CallReading } from './call-format.js';
import type { Reading, TextReader, TextSink } from './text-reader.js';

const ARGUMENT_KEYS = ['arguments', 'parameters'];

/** Reads calls as JSON objects: one, several with or without a comma between, or a list of them. */
export function* readJsonCalls(reading: CallReading): Reading<void> {
  const { reader } = reading;
  yield* reader.skipSpace();
  const isList = (yield* reader.accept('[')) !== undefined;
  yield* reader.skipSpace();
  yield* readJsonCall(reading);
  while (!reader.isHolding) {
    yield* reader.skipSpace();
    const next = yield* reader.peek();
    if (isList && next === ']') yield* reader.accept(']');
    if (next !== ',' && next !== '{') return;
    const hasMore = yield* reading.attempt(function* () {
      yield* reader.accept(',');
      yield* reader.skipSpace();
      yield* readJsonCall(reading);
    });
    if (!hasMore) return;
  }
}

/**
 * Reads `{"name": …, "arguments": {…}}`, a call as one JSON object, from its `{` on. Arguments may be their JSON as a string. `parameters` is as good as
 * `arguments`; `id` and `type` may stand anywhere. Arguments in front of the name wait for it. What is no such object is left
 * at the first character that is wrong; the arguments alone are taken as they come, JSON or not.
 *
 * @param isName whether a function may be called so; default: any that has a name
 */
export function* readJsonCall(
  reading: CallReading,
  isName: (name: string) => boolean = (name) => name !== '',
): Reading<void> {
  const { reader, turn } = reading;
  if (!(yield* reader.accept('{'))) return;
  let name: string | undefined;
  let id: string | undefined;
  let early: string | undefined;
  for (;;) {
    yield* reader.skipSpace();
    const key = yield* readJsonString(reader);
    yield* reader.skipSpace();
    if (key === undefined || !(yield* reader.accept(':'))) return;
    yield* reader.skipSpace();
    if (ARGUMENT_KEYS.includes(key) && early === undefined) {
      if ((yield* reader.peek()) === '"') {
        const { value, isWhole } = yield* readJsonStringPart(reader);
        const json = value?.trim();
        if (json === undefined || (json !== '' && !json.startsWith('{'))) return;
        if (name === undefined) early = json;
        else {
          if (!isWhole && !reader.isCutHere) return;
          reading.begin(name, id);
          if (json !== '') turn.writeArguments(json);
          if (!isWhole) return;
          turn.endCall();
          yield* skipMembers(reading);
          return;
        }
        yield* reader.skipSpace();
        const next = yield* reader.accept(',');
        if (next === undefined) return;
        continue;
      }
      const isNone = (yield* reader.accept('null')) !== undefined;
      if (!isNone && (yield* reader.peek()) !== '{') return;
      if (name !== undefined) {
        reading.begin(name, id);
        if (isNone) turn.endCall();
        else if (!(yield* readArguments(reading))) return;
        yield* skipMembers(reading);
        return;
      }
      early = '';
      if (
        !isNone &&
        !(yield* readJsonObject(reader, (text) => {
          early += text;
        }))
      )
        return;
    } else {
      const value = yield* readJsonString(reader);
      if (value === undefined) return;
      if (key === 'name') name = value;
      else if (key === 'id') id = value;
      else if (key !== 'type') return;
      if (key === 'name' && !isName(value)) return;
    }
    yield* reader.skipSpace();
    const next = yield* reader.accept(',', '}');
    if (next === undefined) return;
    if (next === ',') continue;
    if (name === undefined) return;
    reading.begin(name, id);
    if (early) turn.writeArguments(early);
    turn.endCall();
    return;
  }
}

/** Reads the arguments of the call that has begun. @returns whether they ended before the text did */
export function* readArguments({ reader, turn }: CallReading): Reading<boolean> {
  const isWhole = yield* readJsonObject(reader, (text) => turn.writeArguments(text));
  if (!isWhole && (yield* reader.peek()) === undefined) return false;
  turn.endCall();
  return true;
}

/** Reads what stands behind the arguments: members with texts, which say nothing here, and the `}`. What else is there is content. */
function* skipMembers(reading: CallReading): Reading<void> {
  const { reader } = reading;
  reader.hold();
  for (;;) {
    yield* reader.skipSpace();
    const next = yield* reader.accept(',', '}');
    if (next === '}') reader.release();
    if (next !== ',') break;
    yield* reader.skipSpace();
    if ((yield* readJsonString(reader)) === undefined) break;
    yield* reader.skipSpace();
    if (!(yield* reader.accept(':'))) break;
    yield* reader.skipSpace();
    if ((yield* readJsonString(reader)) === undefined) break;
  }
  // Markup that the end of the text has cut is not whole.
  if (reader.isHolding && (yield* reader.peek()) === undefined) reader.release();
  if (reader.isHolding) reading.turn.writeContent(reader.release());
}

/**
 * Reads a JSON object as it is written, from its `{` to the `}` that closes it. It need not be valid within: brackets are
 * counted, strings respected, and a `<` between them ends it, because that is markup.
 *
 * @returns whether it was closed
 */
export function* readJsonObject(reader: TextReader, sink: TextSink): Reading<boolean> {
  let depth = 0;
  let isString = false;
  let isEscaped = false;
  yield* reader.readAs((unit) => {
    if (isEscaped) isEscaped = false;
    else if (isString) {
      if (unit === BACKSLASH) isEscaped = true;
      else if (unit === QUOTE) isString = false;
    } else if (unit === QUOTE) isString = true;
    else if (unit === LESS_THAN) return 'stop';
    else if (unit === OPEN_BRACE || unit === OPEN_BRACKET) depth += 1;
    else if (unit === CLOSE_BRACE || unit === CLOSE_BRACKET) {
      depth -= 1;
      if (depth === 0) return 'last';
    }
    return 'on';
  }, sink);
  return depth === 0;
}

/** Reads a JSON string. @returns what it says; undefined where none is, or none that is valid */
export function* readJsonString(reader: TextReader): Reading<string | undefined> {
  const { value, isWhole } = yield* readJsonStringPart(reader);
  return isWhole ? value : undefined;
}

/** Reads a JSON string, or its beginning. @returns what it says as far as it is there; undefined where none is, or none that is valid */
function* readJsonStringPart(
  reader: TextReader,
): Reading<{ readonly value?: string | undefined; readonly isWhole: boolean }> {
  if (!(yield* reader.accept('"'))) return { isWhole: false };
  let text = '"';
  let isEscaped = false;
  let hasEnded = false;
  yield* reader.readAs(
    (unit) => {
      if (isEscaped) isEscaped = false;
      else if (unit === QUOTE) {
        hasEnded = true;
        return 'last';
      } else isEscaped = unit === BACKSLASH;
      return unit >= SPACE ? 'on' : 'stop';
    },
    (piece) => {
      text += piece;
    },
  );
  try {
    const whole = hasEnded ? text : `${text.replace(/\\(?:u[\da-fA-F]{0,3})?$/, '')}"`;
    return { value: JSON.parse(whole) as string, isWhole: hasEnded };
  } catch {
    return { isWhole: false };
  }
}

const SPACE = 0x20;
const QUOTE = 0x22;
const LESS_THAN = 0x3c;
const OPEN_BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
