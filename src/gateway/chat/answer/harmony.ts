import type { CallReading } from './call-format.js';
import { readArguments } from './json-call.js';
import type { Reading } from './text-reader.js';

const START = '<|start|>';
const CHANNEL = '<|channel|>';
const MESSAGE = '<|message|>';
/** Markup that ends a message. */
const ENDS = ['<|end|>', '<|call|>', '<|return|>'];

/** Names of special tokens that mean something to {@link readHarmonyTurn}. */
export const HARMONY_MARKERS: readonly string[] = [START, CHANNEL, MESSAGE, '<|constrain|>', ...ENDS];

/** Markup of reasoning, and between it and a call. */
export const HARMONY_REASONING = {
  begin: `${CHANNEL}analysis${MESSAGE}`,
  end: '<|end|>',
  between: `${START}assistant`,
} as const;

/** Markup that ends the header of a message. */
export const HARMONY_MESSAGE = MESSAGE;

/** The header of an answer's message. */
export const HARMONY_ANSWER = `${CHANNEL}final${MESSAGE}`;

/** Form of a turn that need not call: an answer, or a call, in front of which the model may say what it is about to do. */
export const HARMONY_TURN = {
  answer: HARMONY_ANSWER,
  preamble: { begin: `${CHANNEL}commentary${MESSAGE}`, end: `<|end|>${START}assistant` },
  /** Markup that no text within a message contains. */
  marks: [START, CHANNEL, MESSAGE, ...ENDS],
} as const;

/** Parts of a turn that are read as more than content. */
export interface HarmonyOptions {
  readonly hasReasoning: boolean;
  readonly hasCalls: boolean;
}

/**
 * Reads a turn of OpenAI's harmony (https://github.com/openai/harmony): messages, each a header, `<|message|>` and a text. The
 * channel `analysis` is reasoning; what has a recipient is a call, of a function without the `functions.` in front; all else
 * is content, and so is what stands between messages.
 */
export function* readHarmonyTurn(reading: CallReading, options: HarmonyOptions): Reading<void> {
  const { reader, turn } = reading;
  const writeContent = (text: string): void => turn.writeContent(text);
  // The prompt ends with `<|start|>assistant`: a recipient may come first.
  yield* reader.skipSpace();
  if (yield* reader.comes('to=')) yield* readMessage(reading, options);
  for (;;) {
    const next = yield* reader.readTo([START, CHANNEL, ...ENDS], writeContent);
    if (next === undefined) return;
    if (ENDS.includes(next)) {
      yield* reader.accept(next);
      turn.markup('\n');
    } else yield* readMessage(reading, options);
  }
}

/** Reads a header and its message. A header without a message is content. */
function* readMessage(reading: CallReading, { hasReasoning, hasCalls }: HarmonyOptions): Reading<void> {
  const { reader, turn } = reading;
  let header = '';
  reader.hold();
  const end = yield* reader.readTo([MESSAGE, ...ENDS], (text) => {
    header += text;
  });
  if (end !== MESSAGE) {
    const { isCutHere } = reader;
    const held = reader.release();
    if (!isCutHere) turn.writeContent(held);
    return;
  }
  yield* reader.accept(MESSAGE);
  const recipient = /\bto=(?:functions\.)?([^\s<]+)/.exec(header)?.[1];
  // Some headers are begun twice, first with nobody to call: the last channel counts.
  if (recipient !== undefined && recipient !== 'assistant' && hasCalls) {
    reading.begin(recipient);
    yield* readCall(reading);
    return;
  }
  reader.release();
  turn.markup('\n');
  const channel = header.slice(header.lastIndexOf(CHANNEL) + CHANNEL.length).trimStart();
  const isReasoning = hasReasoning && channel.startsWith('analysis');
  yield* reader.readTo([START, ...ENDS], (text) => (isReasoning ? turn.writeReasoning(text) : turn.writeContent(text)));
}

/** Reads the arguments: JSON, or what a tool of another kind takes. */
function* readCall(reading: CallReading): Reading<void> {
  const { reader, turn } = reading;
  yield* reader.skipSpace();
  if ((yield* reader.peek()) === '{') {
    yield* readArguments(reading);
    return;
  }
  const end = yield* reader.readTo([START, ...ENDS], (text) => turn.writeArguments(text));
  if (end !== undefined) turn.endCall();
}
