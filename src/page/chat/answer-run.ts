import { chatBody } from '../server/chat-body.js';
import { eventsOf } from '../server/event-stream.js';
import { reportFailure } from '../server/failures.js';
import { request } from '../server/requests.js';
import { AnswerReader, type ChatEvent } from './answer-reader.js';
import type { Message, Settings } from './conversation.js';

/** Interval of saves: other tabs and a reload see no older text. */
const SAVE_MS = 500;
/** Time between updates of the text: more often than people read, and half as much work as each frame. */
const UPDATE_MS = 33;
/** The same while the page is hidden and has no frames. */
const HIDDEN_MS = 500;

export interface AnswerRunOptions {
  readonly settings: Settings;
  readonly model: string;
  /** Messages up to the one that is begun or continued. */
  readonly path: readonly Message[];
  /** Aborted when its reader stops it. */
  readonly signal: AbortSignal;
  /** Called when there is more to show, and at the end. */
  show(message: Message): void;
  save(message: Message): void;
  announce(text: string): void;
}

/** Requests an answer and receives it. Never throws: an error is part of the message. */
export async function runAnswer(message: Message, options: AnswerRunOptions): Promise<void> {
  const { settings, model, path, signal, show, save, announce } = options;
  const reader = new AnswerReader(message, performance.now());
  let frame: number | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let savedAt = 0;
  let updatedAt = 0;
  const update = (): void => {
    cancelAnimationFrame(frame ?? 0);
    clearTimeout(timer);
    frame = undefined;
    timer = undefined;
    updatedAt = performance.now();
    const next = { ...reader.snapshot('streaming'), saved: Date.now() };
    show(next);
    if (next.saved - savedAt < SAVE_MS) return;
    savedAt = next.saved;
    save(next);
  };
  const schedule = (): void => {
    if (frame !== undefined || timer !== undefined) return;
    if (document.hidden) {
      timer = setTimeout(update, HIDDEN_MS);
      return;
    }
    timer = setTimeout(
      () => {
        timer = undefined;
        frame = requestAnimationFrame(update);
      },
      Math.max(0, updatedAt + UPDATE_MS - performance.now()),
    );
  };
  const visibility = (): void => {
    if (frame !== undefined || timer !== undefined) update();
  };
  document.addEventListener('visibilitychange', visibility);
  // A tab that waits for the first token is alive, too.
  const heartbeat = setInterval(schedule, 2 * SAVE_MS);
  const end = (state: Message['state'], error?: string): void => {
    cancelAnimationFrame(frame ?? 0);
    clearTimeout(timer);
    clearInterval(heartbeat);
    document.removeEventListener('visibilitychange', visibility);
    const last = { ...reader.snapshot(state, error), saved: Date.now() };
    show(last);
    save(last);
  };
  try {
    // A continued answer is the end of the request; a new one is not part of it.
    const isBegun = message.content !== '' || message.toolCalls.length > 0;
    const body = chatBody(model, settings, isBegun ? path : path.slice(0, -1));
    const response = await request('v1/chat/completions', body, signal);
    for await (const data of eventsOf(response.body as ReadableStream<Uint8Array>)) {
      const event = JSON.parse(data) as ChatEvent;
      reader.read(event, performance.now());
      if (event.recovery?.state === 'lost')
        announce('The executor was lost. The answer continues when another has taken over.');
      if (event.recovery?.state === 'resumed')
        announce(`The answer continued after ${event.recovery.ms} milliseconds.`);
      schedule();
    }
    end('complete');
    announce('The answer is complete.');
  } catch (error) {
    if (signal.aborted) {
      end('stopped');
      announce('The answer was stopped.');
      return;
    }
    const text = error instanceof TypeError ? 'the server cannot be reached' : (error as Error).message;
    end('failed', text);
    announce(`The answer failed: ${text}`);
    reportFailure(error);
  }
}
