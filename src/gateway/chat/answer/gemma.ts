import type { CallFormat, CallReading } from './call-format.js';
import type { Reading, TextReader, TextSink } from './text-reader.js';
import { escapedTo, PYTHON_CONSTANTS } from './typed-value.js';

const CALL_BEGIN = '<|tool_call>';
const CALL_END = '<tool_call|>';
const QUOTE = '<|"|>';

/**
 * `<|tool_call>call:name{key:value,…}<tool_call|>`: keys without quotes, strings between `<|"|>` as they are, lists, objects, and
 * what else is as JSON; Gemma 4 (the models' chat templates). JSON is taken too.
 */
export const GEMMA: CallFormat = {
  openers: [CALL_BEGIN],
  closers: [CALL_END],
  markers: [QUOTE],
  *read(reading) {
    const { reader } = reading;
    yield* reader.skipSpace();
    if (!(yield* reader.accept('call:'))) return;
    yield* reader.skipSpace();
    let name = '';
    yield* reader.readAs(
      (unit) => (unit > 0x20 && unit !== 0x7b && unit !== 0x3c ? 'on' : 'stop'),
      (piece) => {
        name += piece;
      },
    );
    yield* reader.skipSpace();
    if (name === '' || (yield* reader.peek()) !== '{') return;
    reading.begin(name);
    yield* readArguments(reading);
  },
};

const CLOSERS = { '{': '}', '[': ']' } as const;

/**
 * Writes the arguments of the call that has begun as JSON, as they come. What is no such object ends it, with what is open
 * closed; the end of the text leaves it as far as it is.
 */
function* readArguments({ reader, turn }: CallReading): Reading<void> {
  const write = (text: string): void => turn.writeArguments(text);
  const open: ('{' | '[')[] = [];
  let isBehindValue = false;
  for (;;) {
    yield* reader.skipSpace();
    const next = yield* reader.peek();
    if (next === undefined) return;
    const inner = open.at(-1);
    if (inner !== undefined && next === CLOSERS[inner]) {
      yield* reader.accept(next);
      write(next);
      open.pop();
      isBehindValue = true;
      if (open.length === 0) break;
      continue;
    }
    if (isBehindValue) {
      if (!(yield* reader.accept(','))) break;
      yield* reader.skipSpace();
      const follower = yield* reader.peek();
      if (follower === undefined) return;
      // A comma in front of the end says nothing.
      if (inner !== undefined && follower === CLOSERS[inner]) continue;
      write(', ');
      isBehindValue = false;
    }
    if (inner === '{') {
      if (!(yield* readKey(reader, write))) return;
      if (!(yield* reader.accept(':'))) {
        if ((yield* reader.peek()) === undefined) return;
        write('null');
        break;
      }
      yield* reader.skipSpace();
    }
    const bracket = yield* reader.accept('{', '[');
    if (bracket === '{' || bracket === '[') {
      write(bracket);
      open.push(bracket);
      continue;
    }
    if (!(yield* readScalar(reader, write))) return;
    isBehindValue = true;
  }
  while (open.length > 0) write(CLOSERS[open.pop() as '{' | '[']);
  turn.endCall();
}

/** Reads a key and writes it with its colon. @returns whether it is whole */
function* readKey(reader: TextReader, write: TextSink): Reading<boolean> {
  write('"');
  const isWhole = (yield* readQuoted(reader, write)) ?? (yield* readBare(reader, escapedTo(write), ':'));
  if (!isWhole) return false;
  write('": ');
  yield* reader.skipSpace();
  return true;
}

/** Reads a string, a number or a constant. @returns whether it is whole */
function* readScalar(reader: TextReader, write: TextSink): Reading<boolean> {
  let isOpen = false;
  const quoted = yield* readQuoted(reader, (text) => {
    if (!isOpen) write('"');
    isOpen = true;
    write(text);
  });
  if (quoted !== undefined) {
    if (quoted) write(isOpen ? '"' : '""');
    return quoted;
  }
  let text = '';
  const isWhole = yield* readBare(
    reader,
    (piece) => {
      text += piece;
    },
    '',
  );
  const trimmed = text.trim();
  const json = PYTHON_CONSTANTS.get(trimmed) ?? trimmed;
  // The complete value is not known: it stays as it was written.
  if (!isWhole) write(trimmed);
  else write(/^(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(json) ? json : JSON.stringify(trimmed));
  return isWhole;
}

/**
 * Reads a string between `<|"|>`, or JSON's quotes.
 *
 * @param sink gets it as JSON, without quotes
 * @returns undefined: there is none; false: the text ends in it
 */
function* readQuoted(reader: TextReader, sink: TextSink): Reading<boolean | undefined> {
  const quote = yield* reader.accept(QUOTE, '"');
  if (quote === undefined) return undefined;
  if (quote === QUOTE) {
    const end = yield* reader.readTo([QUOTE], escapedTo(sink));
    return end !== undefined && (yield* reader.accept(QUOTE)) !== undefined;
  }
  let isEscaped = false;
  const isWhole = yield* reader.readAs((unit) => {
    if (!isEscaped && unit === 0x22) return 'stop';
    isEscaped = !isEscaped && unit === 0x5c;
    return 'on';
  }, sink);
  return isWhole && (yield* reader.accept('"')) !== undefined;
}

/** Reads up to what ends a value, or a character of `others`. @returns whether something does */
function* readBare(reader: TextReader, sink: TextSink, others: string): Reading<boolean> {
  const ends = new Set([...',}]<', ...others].map((end) => end.charCodeAt(0)));
  return yield* reader.readAs((unit) => (ends.has(unit) ? 'stop' : 'on'), sink);
}
