import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openAiError } from '../../../../src/gateway/api/http/errors.js';
import { EventStream } from '../../../../src/gateway/api/http/event-stream.js';
import type { Exchange } from '../../../../src/gateway/api/http/exchange.js';
import type { ResponseWriter } from '../../../../src/gateway/api/http/request.js';
import { RocmForgeError } from '../../../../src/shared/errors.js';

/** A response that keeps what is written. */
class Written extends EventEmitter {
  readonly destroyed = false;
  writableEnded = false;
  status = 0;
  text = '';

  writeHead(status: number): void {
    this.status = status;
  }

  write(text: string): void {
    this.text += text;
  }

  end(): void {
    this.writableEnded = true;
    this.emit('close');
  }
}

const writer: ResponseWriter = {
  begin: () => undefined,
  unaryBody: () => undefined,
  events: ({ requestId }) => [requestId],
  lastEvents: () => ['[DONE]'],
};

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function open() {
  const response = new Written();
  const failed: string[] = [];
  const exchange = { response, errorForm: openAiError, fail: ({ reason }: RocmForgeError) => failed.push(reason) };
  const stream = new EventStream(exchange as unknown as Exchange, writer);
  return { response, failed, stream };
}

const event = (requestId: string) => ({ requestId, event: undefined });
const lost = new RocmForgeError('INTERNAL', 'lost');

it('sends headers a second after the prompt was read, and a comment after each 15 s without an event', () => {
  const { response, stream } = open();
  stream.begin(Uint32Array.of(1));
  vi.advanceTimersByTime(900);
  expect(response.status).toBe(0);
  vi.advanceTimersByTime(200);
  expect([response.status, response.text]).toEqual([200, ': waiting\n\n']);
  vi.advanceTimersByTime(10_000);
  stream.write(event('a'));
  vi.advanceTimersByTime(14_000);
  expect(response.text).toBe(': waiting\n\ndata: a\n\n');
  vi.advanceTimersByTime(2000);
  expect(response.text).toBe(': waiting\n\ndata: a\n\n: waiting\n\n');
  stream.end();
  vi.advanceTimersByTime(60_000);
  expect(response.text).toBe(': waiting\n\ndata: a\n\n: waiting\n\ndata: [DONE]\n\n');
});

it('has a status of its own for what fails before, and an event for what fails after', () => {
  const early = open();
  early.stream.begin(Uint32Array.of(1));
  early.stream.fail(lost);
  expect([early.failed, early.response.status]).toEqual([['INTERNAL'], 0]);
  const late = open();
  late.stream.begin(Uint32Array.of(1));
  vi.advanceTimersByTime(2000);
  late.stream.fail(lost);
  expect([late.failed, late.response.status]).toEqual([[], 200]);
  expect(late.response.text).toContain('"code":"INTERNAL"');
});
