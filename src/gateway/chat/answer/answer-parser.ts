import { type AnswerFormat, CALL_FORMATS, markersOf, REASONING_FORMATS } from './answer-format.js';
import { type CallFormat, CallReading, type ReasoningFormat } from './call-format.js';
import type { OfferedTool, ResponseEvent } from './events.js';
import { HARMONY_MESSAGE, readHarmonyTurn } from './harmony.js';
import { type Reading, TextReader, type TextSink } from './text-reader.js';
import { TurnWriter } from './turn-writer.js';

export interface AnswerParserOptions {
  readonly format: AnswerFormat;
  /** The functions that may be called; empty: nothing is a call. */
  readonly tools: readonly OfferedTool[];
  /** Position in the turn at which the text starts, see {@link responseStart}. */
  readonly start: ResponseStart;
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

  /** True if as many calls are whole as may come: what follows is read by nobody. */
  get isOver(): boolean {
    return this.turn.isOver;
  }

  /** True if there are calls, all of them whole. */
  get hasWholeCalls(): boolean {
    return this.turn.hasWholeCalls;
  }

  /** Takes the next piece of the text. */
  push(text: string): readonly ResponseEvent[] {
    if (text === '') return [];
    this.reader.feed(text);
    this.reading.next();
    return this.turn.take();
  }

  /**
   * The text has ended: a call that is not whole stays as far as it is.
   *
   * @param isCut whether the model would have gone on: what may be the beginning of markup is dropped then
   */
  finish(isCut = false): readonly ResponseEvent[] {
    this.reader.end(isCut);
    this.reading.next();
    this.turn.finish();
    return this.turn.take();
  }
}

/**
 * Position in an assistant's turn at which a text starts: at its beginning, where reasoning may come; within reasoning that the
 * prompt has begun; at the content, where the prompt has ended the reasoning; or within content that the text continues.
 */
export type ResponseStart = 'turn' | 'reasoning' | 'content' | 'continuation';

/**
 * Position at which a text starts behind a prompt: some templates begin the reasoning, or end it at once.
 *
 * @param promptEnd the last characters of the prompt
 * @param begun     the content of the final turn where the text continues it; undefined or empty: the turn is new
 */
export function responseStart({ reasoning, tools }: AnswerFormat, promptEnd: string, begun?: string): ResponseStart {
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
  const known = format.tools && CALL_FORMATS[format.tools];
  const calls = known !== undefined && (hasCalls || known.isAddressed) ? known : NO_CALLS;
  const marks = format.reasoning && REASONING_FORMATS[format.reasoning];
  const isOver = marks !== undefined && (yield* readReasoning(reading, marks, calls, start === 'reasoning'));
  if (isOver) return;
  // Some models end in a continuation what they take for their reasoning.
  let stray = start === 'continuation' ? marks?.end : undefined;
  if (marks?.answer !== undefined && (yield* readTag(reading, marks.answer.begin))) stray = marks.answer.end;
  if (calls.isAddressed && start !== 'continuation') yield* reading.attempt(() => calls.read(reading, undefined));
  yield* readContent(reading, calls, stray);
}

/** Reads a tag behind white space. @returns whether it is there */
function* readTag({ reader, turn }: CallReading, tag: string): Reading<boolean> {
  reader.hold();
  yield* reader.skipSpace();
  const isThere = (yield* reader.accept(tag)) !== undefined;
  const { isCutHere } = reader;
  const read = reader.release();
  if (isThere) turn.markup();
  else if (!isCutHere) turn.writeContent(read);
  return isThere;
}

/**
 * Reads reasoning at the start of the turn. A call that stands in it ends it, unless its end comes later: then the call is only
 * spoken of.
 *
 * @param isBegun whether the prompt has begun it
 * @returns whether the turn is over
 */
function* readReasoning(
  reading: CallReading,
  { begin, end }: ReasoningFormat,
  calls: CallFormat,
  isBegun: boolean,
): Reading<boolean> {
  const { reader, turn } = reading;
  // Some models begin again what the prompt has begun.
  const isReasoning = (yield* readTag(reading, begin)) || isBegun;
  if (!isReasoning) return false;
  turn.markup();
  const next = yield* reader.readTo([end, ...calls.openers], (text) => turn.writeReasoning(text));
  if (next === undefined) return true;
  if (next !== end) {
    reader.hold();
    const later = yield* reader.readTo([end], () => undefined);
    const { isCutHere } = reader;
    const held = reader.release();
    if (later === undefined) {
      readUnended(reading, calls, { text: held, isCut: isCutHere });
      return true;
    }
    turn.writeReasoning(held);
  }
  yield* reader.accept(end);
  turn.markup();
  return false;
}

/** Reads the rest of reasoning that never ends: up to a call of a function that was offered it is reasoning. */
function readUnended(
  { turn, tools }: CallReading,
  calls: CallFormat,
  { text, isCut }: { readonly text: string; readonly isCut: boolean },
): void {
  const read = (into: TurnWriter, writeText: TextSink): void => {
    const reader = new TextReader();
    reader.feed(text);
    reader.end(isCut);
    const inner = new CallReading(reader, into, tools);
    inner.writeText = writeText;
    const reading = readContent(inner, calls, undefined);
    while (!reading.next().done);
  };
  const trial = new TurnWriter(() => '', Number.POSITIVE_INFINITY);
  read(trial, () => undefined);
  const begun = trial.take().filter((event) => event.kind === 'call');
  const isReasoning = begun.length > 0 && !begun.some((call) => tools.some(({ name }) => name === call.name));
  if (isReasoning) turn.writeReasoning(text);
  else read(turn, (piece) => turn.writeReasoning(piece));
}

/** Content without calls. */
const NO_CALLS: CallFormat = {
  openers: [],
  closers: [],
  read: function* () {},
};

/** @param stray markup that is dropped where it comes first; undefined: none */
function* readContent(reading: CallReading, format: CallFormat, stray: string | undefined): Reading<void> {
  const { reader, turn } = reading;
  const { openers, closers } = format;
  const lastCloser = closers.at(-1);
  let isCalled = false;
  let dropped = stray;
  if (format.isBare) {
    const read = function* (): Reading<void> {
      yield* reader.skipSpace();
      if ((yield* reader.peek()) === '{') yield* format.read(reading, undefined);
    };
    isCalled = yield* reading.attempt(read, (held) => beginsBareCall(held, reading.tools));
  }
  for (;;) {
    const literals = [...openers, ...(isCalled ? closers : []), ...(dropped === undefined ? [] : [dropped])];
    const next = yield* reader.readTo(literals, (text) => reading.writeText(text));
    if (next === undefined) return;
    if (!openers.includes(next)) {
      yield* reader.accept(next);
      turn.markup();
      if (next === dropped) dropped = undefined;
      else isCalled = next !== lastCloser;
      continue;
    }
    const hasBegun = yield* reading.attempt(function* () {
      yield* reader.accept(next);
      yield* format.read(reading, next);
    });
    isCalled ||= hasBegun;
  }
}

/** True if a JSON text that was cut begins as a call of a function that was offered. */
function beginsBareCall(held: string, tools: readonly OfferedTool[]): boolean {
  const text = held.replace(/\s+/g, '');
  return tools.some(({ name }) => {
    const call = `{"name":${JSON.stringify(name)}`.replace(/\s+/g, '');
    return call.startsWith(text) || text.startsWith(call);
  });
}
