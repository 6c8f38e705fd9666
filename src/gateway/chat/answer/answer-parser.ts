import { type AnswerFormat, CALL_FORMATS, markersOf, REASONING_FORMATS } from './answer-format.js';
import { type CallFormat, CallReading, type ReasoningFormat } from './call-format.js';
import type { AnswerEvent, OfferedTool } from './events.js';
import { HARMONY_MESSAGE, readHarmonyTurn } from './harmony.js';
import { type Reading, TextReader } from './text-reader.js';
import { TurnWriter } from './turn-writer.js';

export interface AnswerParserOptions {
  readonly format: AnswerFormat;
  /** The functions that may be called; empty: nothing is a call. */
  readonly tools: readonly OfferedTool[];
  /** Where in the turn the text starts, see {@link answerStart}. */
  readonly start: AnswerStart;
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

/**
 * Where in an assistant's turn a text starts: at its beginning, where reasoning may come; within reasoning that the prompt has
 * begun; at the content, where the prompt has ended the reasoning; or within content that the text continues.
 */
export type AnswerStart = 'turn' | 'reasoning' | 'content' | 'continuation';

/**
 * Where a text starts behind a prompt: some templates begin the reasoning, or end it at once.
 *
 * @param promptEnd the last characters of the prompt
 * @param begun     the content of the final turn where the text continues it; undefined or empty: the turn is new
 */
export function answerStart({ reasoning, tools }: AnswerFormat, promptEnd: string, begun?: string): AnswerStart {
  const end = promptEnd.trimEnd();
  const isHarmony = reasoning === 'harmony' || tools === 'harmony';
  if (isHarmony && !begun) return end.endsWith(HARMONY_MESSAGE) ? 'content' : 'turn';
  if (isHarmony || reasoning === undefined) return begun ? 'continuation' : 'turn';
  const marks = REASONING_FORMATS[reasoning];
  if (begun) return begun.lastIndexOf(marks.begin) > begun.lastIndexOf(marks.end) ? 'reasoning' : 'continuation';
  if (end.endsWith(marks.begin)) return 'reasoning';
  return end.endsWith(marks.end) ? 'content' : 'turn';
}

function* readTurn(reading: CallReading, { format, tools, start }: AnswerParserOptions): Reading<void> {
  const hasCalls = tools.length > 0 && format.tools !== undefined;
  if (format.tools === 'harmony' || format.reasoning === 'harmony') {
    yield* readHarmonyTurn(reading, { hasReasoning: format.reasoning === 'harmony', hasCalls });
    return;
  }
  if (format.reasoning !== undefined) {
    yield* readReasoning(reading, REASONING_FORMATS[format.reasoning], start === 'reasoning');
  }
  // Some models end in a continuation what they take for their reasoning.
  const strayEnd = start === 'continuation' && format.reasoning ? REASONING_FORMATS[format.reasoning].end : undefined;
  yield* readContent(reading, strayEnd, hasCalls && format.tools !== undefined ? CALL_FORMATS[format.tools] : NO_CALLS);
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

/** Content without calls. */
const NO_CALLS: CallFormat = { openers: [], closers: [], *read() {} };

/** @param stray markup that is dropped where it comes first; undefined: none */
function* readContent(reading: CallReading, stray: string | undefined, format: CallFormat): Reading<void> {
  const { reader, turn } = reading;
  const { openers, closers } = format;
  const lastCloser = closers.at(-1);
  let isCalled = false;
  let strayEnd = stray;
  if (format.isBare) {
    isCalled = yield* reading.attempt(function* () {
      yield* reader.skipSpace();
      if ((yield* reader.peek()) === '{') yield* format.read(reading, undefined);
    });
  }
  for (;;) {
    const literals = [...openers, ...(isCalled ? closers : []), ...(strayEnd === undefined ? [] : [strayEnd])];
    const next = yield* reader.readTo(literals, (text) => turn.writeContent(text));
    if (next === undefined) return;
    if (next === strayEnd) {
      yield* reader.accept(next);
      turn.markup();
      strayEnd = undefined;
      continue;
    }
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
