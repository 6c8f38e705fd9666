import type { CallFormat } from './call-format.js';
import { readArguments } from './json-call.js';

const CALLS_BEGIN = '<｜tool▁calls▁begin｜>';
const CALL_BEGIN = '<｜tool▁call▁begin｜>';
const SEPARATOR = '<｜tool▁sep｜>';
const CALL_END = '<｜tool▁call▁end｜>';
const CALLS_END = '<｜tool▁calls▁end｜>';

/**
 * In a list of calls each between its own two tokens: `name<｜tool▁sep｜>{…}` of DeepSeek V3.1, and of V3 and R1
 * `function<｜tool▁sep｜>name`, a line's end and the arguments in a fence of JSON (the models' chat templates).
 */
export const DEEPSEEK: CallFormat = {
  openers: [CALLS_BEGIN, CALL_BEGIN],
  closers: [CALL_END, CALLS_END],
  markers: [SEPARATOR],
  *read(reading) {
    const { reader } = reading;
    // Behind the beginning of a list, or of a call that has lost it.
    yield* reader.skipSpace();
    yield* reader.accept(CALL_BEGIN);
    let name = '';
    const take = (text: string): void => {
      name += text;
    };
    if ((yield* reader.readTo([SEPARATOR, CALL_END, CALLS_END], take)) !== SEPARATOR) return;
    yield* reader.accept(SEPARATOR);
    yield* reader.skipSpace();
    const isFenced = name.trim() === 'function' && (yield* reader.peek()) !== '{';
    if (isFenced) {
      name = '';
      if ((yield* reader.readTo(['```json', CALL_END, CALLS_END], take)) !== '```json') return;
      yield* reader.accept('```json');
      yield* reader.skipSpace();
    }
    if (name.trim() === '' || (yield* reader.peek()) !== '{') return;
    reading.begin(name.trim());
    if (!(yield* readArguments(reading)) || !isFenced) return;
    yield* reader.skipSpace();
    yield* reader.accept('```');
  },
};
