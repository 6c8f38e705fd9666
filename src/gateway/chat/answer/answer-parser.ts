import { type AnswerFormat, CALL_FORMATS, markersOf, REASONING_FORMATS } from './answer-format.js';
import { type CallFormat, CallReading, type ReasoningFormat } from './call-format.js';
import type { AnswerEvent, OfferedTool } from './events.js';
import { readHarmonyTurn } from './harmony.js';
import { type Reading, TextReader } from './text-reader.js';
import { TurnWriter } from './turn-writer.js';

export interface AnswerParserOptions {
  readonly format: AnswerFormat;
  /** The functions that may be called; empty: nothing is a call. */
  readonly tools: readonly OfferedTool[];
  /** Whether the prompt ends within the reasoning, see {@link beginsInReasoning}. */
  readonly isInReasoning: boolean;
  /** Behind so many whole calls the turn is over; default: never. */
  readonly mostCalls?: number | undefined;
  /** Makes the id of a call that the model gave none. */
  readonly newId: () => string;
}

/**
 * Reads an assistant's turn as it comes: what is content, what reasoning, and which functions are called. Nothing is lost: what
 * looks like a call and is none is content. The events, joined, do not depend on how the text was cut. Pure.
 */
export class AnswerParser {
  /** Names of special tokens that are to be pushed, though they are no text. */
  readonly markers: ReadonlySet<string>;
  private readonly reader = new TextReader();
  private readonly turn: TurnWriter;
  private readonly reading: Reading<void>;

  constructor(options: AnswerParserOptions) {
    const { format, tools, newId, mostCalls = Number.POSITIVE_INFINITY } = options;
    this.markers = markersOf(format);
    this.turn = new TurnWriter(newId, mostCalls);
    this.reading = readTurn(new CallReading(this.reader, this.turn, tools), options);
  }

  /** Whether as many calls are whole as may come: what follows is read by nobody. */
  get isOver(): boolean {
    return this.turn.isOver;
  }

  /** Whether there are calls, all of them whole. */
  get hasWholeCalls(): boolean {
    return this.turn.hasWholeCalls;
  }

  /** Takes the next piece of the text. */
  push(text: string): readonly AnswerEvent[] {
    if (text === '') return [];
    this.reader.feed(text);
    this.reading.next();
    return this.turn.take();
  }

  /** The text has ended: a call that is not whole stays as far as it is. */
  finish(): readonly AnswerEvent[] {
    this.reader.end();
    this.reading.next();
    this.turn.finish();
    return this.turn.take();
  }
}

/** Whether a prompt that ends so has begun the reasoning: some templates do. */
export function beginsInReasoning({ reasoning }: AnswerFormat, promptEnd: string): boolean {
  if (reasoning === undefined || reasoning === 'harmony') return false;
  return promptEnd.trimEnd().endsWith(REASONING_FORMATS[reasoning].begin);
}

function* readTurn(reading: CallReading, { format, tools, isInReasoning }: AnswerParserOptions): Reading<void> {
  const hasCalls = tools.length > 0 && format.tools !== undefined;
  if (format.tools === 'harmony' || format.reasoning === 'harmony') {
    yield* readHarmonyTurn(reading, { hasReasoning: format.reasoning === 'harmony', hasCalls });
    return;
  }
  if (format.reasoning !== undefined) {
    yield* readReasoning(reading, REASONING_FORMATS[format.reasoning], isInReasoning);
  }
  if (hasCalls && format.tools !== undefined) yield* readCalls(reading, CALL_FORMATS[format.tools]);
  else yield* reading.reader.readTo([], (text) => reading.turn.writeContent(text));
}

function* readReasoning(reading: CallReading, { begin, end }: ReasoningFormat, isBegun: boolean): Reading<void> {
  const { reader, turn } = reading;
  reader.hold();
  yield* reader.skipSpace();
  // Some models begin again what the prompt has begun.
  const isReasoning = (yield* reader.accept(begin)) !== undefined || isBegun;
  const read = reader.release();
  if (!isReasoning) turn.writeContent(read);
  if (!isReasoning) return;
  turn.markup();
  if (!(yield* reader.readTo([end], (text) => turn.writeReasoning(text)))) return;
  yield* reader.accept(end);
  turn.markup();
}

function* readCalls(reading: CallReading, format: CallFormat): Reading<void> {
  const { reader, turn } = reading;
  const { openers, closers } = format;
  const lastCloser = closers.at(-1);
  let isCalled = false;
  if (format.isBare) {
    isCalled = yield* reading.attempt(function* () {
      yield* reader.skipSpace();
      if ((yield* reader.peek()) === '{') yield* format.read(reading, undefined);
    });
  }
  for (;;) {
    const literals = isCalled ? [...openers, ...closers] : openers;
    const next = yield* reader.readTo(literals, (text) => turn.writeContent(text));
    if (next === undefined) return;
    if (!openers.includes(next)) {
      yield* reader.accept(next);
      turn.markup();
      isCalled = next !== lastCloser;
      continue;
    }
    const hasBegun = yield* reading.attempt(function* () {
      yield* reader.accept(next);
      yield* format.read(reading, next);
    });
    isCalled ||= hasBegun;
  }
}
