import type { CallFormat } from './call-format.js';
import { readArguments } from './json-call.js';

const RECIPIENT = '>>>';

/** The recipient of content, on a line of its own. */
const EVERYBODY = 'all\n';

/**
 * Messages as `>>>recipient`, the end of the line and a text (the model's chat template): Functionary 3.2, whose prompt ends with
 * the first `>>>`. The recipient `all` receives content, a function that was offered its arguments as a JSON object. What else
 * looks like a recipient is content.
 */
export const FUNCTIONARY_V3: CallFormat = {
  openers: [RECIPIENT],
  closers: [],
  isAddressed: true,
  *read(reading, opener) {
    const { reader, turn, tools } = reading;
    // Some models repeat what the prompt has begun.
    if (opener === undefined) yield* reader.accept(RECIPIENT);
    const recipient = yield* reader.accept(EVERYBODY, ...tools.map(({ name }) => `${name}\n`));
    if (recipient === EVERYBODY) {
      reader.release();
      turn.markup('\n');
      return;
    }
    if (recipient === undefined) return;
    yield* reader.skipSpace();
    if ((yield* reader.peek()) !== '{') return;
    reading.begin(recipient.trimEnd());
    yield* readArguments(reading);
  },
};

/** Form of a turn that need not call: an answer, or a call, in front of which the model may say what it is about to do. */
export const FUNCTIONARY_V3_TURN = {
  answer: EVERYBODY,
  preamble: { begin: EVERYBODY, end: RECIPIENT },
  /** Markup that no text within a message contains. */
  marks: [RECIPIENT],
} as const;
