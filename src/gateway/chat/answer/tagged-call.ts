import type { CallReading } from './call-format.js';
import type { Reading, TextReader, TextSink } from './text-reader.js';
import { escapedTo } from './typed-value.js';

/** The tags between which a format writes the parameters of a call, each value as text. */
export interface TagSet {
  readonly keyBegin: string;
  readonly keyEnd: string;
  /** Between key and value; absent: nothing. White space in front of it says nothing. */
  readonly valueBegin?: string;
  /** Markup that ends a value: the first that comes. */
  readonly valueEnds: readonly string[];
  /** The tags that end a call, the first of which also ends a value that nothing else has ended, where the call is over behind them. */
  readonly callEnds: readonly string[];
  /** Markup that begins the next call. */
  readonly callBegin: string;
  /** True if a line's end behind the key is markup. */
  readonly hasLineBreaks: boolean;
}

/**
 * Reads the parameters of a call that has begun and writes them as a JSON object, strings as they come. Ends at what is no
 * parameter; the end of the text leaves the object as far as it is.
 */
export function* readTaggedArguments(reading: CallReading, name: string, tags: TagSet): Reading<void> {
  const { reader, turn } = reading;
  const types = reading.parameterTypes(name);
  const write = (text: string): void => turn.writeArguments(text);
  const unread = new Set(types.names);
  let separator = '{';
  for (;;) {
    yield* reader.skipSpace();
    if ((yield* reader.peek()) === undefined) return;
    if (!(yield* reader.accept(tags.keyBegin))) {
      if (reader.isCutHere) return;
      break;
    }
    write(`${separator}"`);
    separator = ', ';
    let key = '';
    const escaped = escapedTo(write);
    const keyEnd = yield* reader.readTo([tags.keyEnd], (text) => {
      key += text;
      escaped(text);
    });
    if (keyEnd === undefined) return;
    yield* reader.accept(keyEnd);
    unread.delete(key);
    write('": ');
    if (tags.valueBegin !== undefined) {
      yield* reader.skipSpace();
      // A key without a value has none.
      if (!(yield* reader.accept(tags.valueBegin))) {
        if ((yield* reader.peek()) === undefined) return;
        write('null');
        break;
      }
    }
    const isOnLines = tags.hasLineBreaks && (yield* reader.accept('\n')) !== undefined;
    const isString = types.isString(key);
    if (isString) write('"');
    let value = '';
    const take: TextSink = isString
      ? escaped
      : (text) => {
          value += text;
        };
    const end = yield* readValue(reader, tags, { unread, isOnLines }, take);
    if (end === undefined) {
      // The complete value is not known: it stays as it was written.
      if (value !== '') write(value);
      return;
    }
    write(isString ? '"' : types.jsonOf(key, value));
    if (end === 'call') break;
  }
  if (separator !== '{') write('}');
  turn.endCall();
}

/**
 * Reads a value and what ends it. Where a model forgets that, the next parameter of the function ends it, or the end of the call.
 *
 * @param unread    parameters of the function that were not written yet
 * @param isOnLines whether tags stand on lines of their own: within a line they are text
 * @returns what has ended it; undefined: the end of the text
 */
function* readValue(
  reader: TextReader,
  tags: TagSet,
  { unread, isOnLines }: { readonly unread: ReadonlySet<string>; readonly isOnLines: boolean },
  take: TextSink,
): Reading<'value' | 'key' | 'call' | undefined> {
  const keys = [...unread]
    .flatMap((name) => lines(`${tags.keyBegin}${name}${tags.keyEnd}`))
    .filter((tag) => !isOnLines || tag.startsWith('\n'));
  const calls = lines(tags.callEnds[0] as string);
  for (;;) {
    const next = yield* reader.readTo([...tags.valueEnds, ...keys, ...calls], take);
    if (next === undefined) return undefined;
    if (keys.includes(next)) return 'key';
    if (!calls.includes(next)) {
      yield* reader.accept(next);
      return 'value';
    }
    reader.hold();
    yield* reader.accept(next);
    for (const tag of tags.callEnds.slice(1)) {
      yield* reader.skipSpace();
      yield* reader.accept(tag);
    }
    yield* reader.skipSpace();
    const isOver = (yield* reader.peek()) === undefined || (yield* reader.comes(tags.callBegin)) !== undefined;
    const held = reader.release();
    if (isOver) return 'call';
    take(held);
  }
}

/** A tag, and with the line's end in front. */
const lines = (tag: string): readonly string[] => [`\n${tag}`, tag];

/** Reads a name: up to a space or an angle bracket. */
export function* readTagName({ reader }: CallReading): Reading<string> {
  let name = '';
  yield* reader.readAs(
    (unit) => (unit > 0x20 && unit !== 0x3c && unit !== 0x3e ? 'on' : 'stop'),
    (piece) => {
      name += piece;
    },
  );
  return name;
}
