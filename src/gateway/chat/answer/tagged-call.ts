import type { CallReading } from './call-format.js';
import type { Reading } from './text-reader.js';
import { escapedTo } from './typed-value.js';

/** The tags between which a format writes the parameters of a call, each value as text. */
export interface TagSet {
  readonly keyBegin: string;
  readonly keyEnd: string;
  /** Between key and value; absent: nothing. White space in front of it says nothing. */
  readonly valueBegin?: string;
  /** What ends a value: the first that comes. */
  readonly valueEnds: readonly string[];
  /** Whether a line's end behind the key is markup. */
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
  let separator = '{';
  for (;;) {
    yield* reader.skipSpace();
    if ((yield* reader.peek()) === undefined) return;
    if (!(yield* reader.accept(tags.keyBegin))) break;
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
    if (tags.hasLineBreaks) yield* reader.accept('\n');
    const isString = types.isString(key);
    if (isString) write('"');
    let value = '';
    const valueEnd = yield* reader.readTo(
      tags.valueEnds,
      isString
        ? escaped
        : (text) => {
            value += text;
          },
    );
    if (valueEnd === undefined) {
      // What a value would have become is not known: it stays as it was written.
      if (value !== '') write(value);
      return;
    }
    yield* reader.accept(valueEnd);
    write(isString ? '"' : types.jsonOf(key, value));
  }
  if (separator !== '{') write('}');
  turn.endCall();
}

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
