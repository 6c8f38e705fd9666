import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RequestContext } from '../../../src/gateway/request/context.js';
import type { Generation } from '../../../src/gateway/request/generation.js';
import { type Backend, RequestRunner } from '../../../src/gateway/request/runner.js';
import { Limiter } from '../../../src/gateway/trust/limiter.js';
import { type Limits, NO_LIMITS } from '../../../src/gateway/trust/limits.js';
import { RocmForgeError } from '../../../src/shared/errors.js';
import { smallBpe, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { greedyParameters } from '../../support/greedy-parameters.js';

const TOKENIZER = tokenizerOf(smallBpe());
const CONTEXT: RequestContext = {
  id: 'r1',
  arrivedAt: 0,
  principal: 'somebody',
  peer: '10.0.0.1',
  trace: { traceId: '0af7651916cd43dd8448eb211c80319c', flags: 1, parentId: 'b7ad6b7169203331' },
  deadline: Number.POSITIVE_INFINITY,
};
const PARAMETERS = greedyParameters(Uint32Array.of(104, 105), 2);

let progress: string[];
let lines: Record<string, unknown>[];
let calls: string[];
let generation: Generation;
let outcomes: string[];
let latencies: (number | undefined)[];
let counted: number;
let refusal: Error | undefined;
let limits: Pick<Limits, 'of'>;
let rateLimits: string[];
let limiter: Limiter;

const backend: Backend = {
  submit: (submitted) => {
    if (refusal) throw refusal;
    generation = submitted;
    calls.push('submit');
  },
  hasRoomForMore: () => true,
  cancel: (cancelled) => {
    cancelled.abandon();
    calls.push('cancel');
  },
  pause: (_generation, by) => calls.push(by === undefined ? 'go on' : `pause by ${by}`),
  expire: () => calls.push('expire'),
};
const observer = {
  requestStarted: () => undefined,
  firstToken: (seconds: number) => latencies.push(seconds),
  tokens: (count: number) => {
    counted += count;
  },
  completionEnded: () => undefined,
  requestEnded: (outcome: string, seconds: number | undefined) => {
    outcomes.push(outcome);
    latencies.push(seconds);
  },
};

beforeEach(() => {
  lines = [];
  calls = [];
  outcomes = [];
  latencies = [];
  counted = 0;
  refusal = undefined;
  limits = NO_LIMITS;
  rateLimits = [];
  limiter = new Limiter(() => limits, { rateLimited: (limit) => rateLimits.push(limit) });
});
afterEach(() => vi.useRealTimers());

/** Runs a request; what its sink is told comes back as text. */
function run({ signal = new AbortController().signal, context = CONTEXT, timeLimitMs = 0, isPromptOnly = false } = {}) {
  const told: string[] = [];
  progress = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const running = new RequestRunner('model', TOKENIZER, backend, observer, limiter, log).run(
    { ...PARAMETERS, timeLimitMs, isPromptOnly },
    {
      chunk: (_index, _ids, text) => told.push(text),
      progress: ({ total, cached, processed }) => progress.push(`${processed} of ${total}, ${cached} cached`),
      prompt: () => undefined,
      complete: (_index, { reason }) => told.push(reason),
      error: ({ reason }) => told.push(reason),
    },
    signal,
    context,
  );
  return { running, told };
}

/** The executor computes a token. */
function emit(tokenId: number): void {
  const [sequence] = generation.sequences;
  if (sequence === undefined) throw new Error('a generation without sequences');
  sequence.emitted.push(tokenId);
  generation.push(sequence, {
    tokenId,
    logprob: 0,
    rank: 0,
    topIds: [],
    topLogprobs: [],
    chosenLogprobs: [],
    chosenRanks: [],
  });
}

describe('a request', () => {
  it('tells of its prompt what is computed the first time, and nothing where it is computed again', () => {
    run();
    const [sequence] = generation.sequences as [Generation['sequences'][number]];
    generation.placed(sequence);
    for (const computed of [1, 0, 1, 2, 3]) {
      sequence.computed = computed;
      generation.progressed(sequence);
    }
    sequence.forgetDevice();
    generation.placed(sequence);
    sequence.computed = 2;
    generation.progressed(sequence);
    expect(progress).toEqual(['0 of 2, 0 cached', '1 of 2, 0 cached', '2 of 2, 0 cached']);
  });

  it('tells its sink what comes, and is logged by its context once it has ended', () => {
    const { running, told } = run();
    emit(104);
    expect(running.done).toBe(false);
    emit(105);
    expect(running.done).toBe(true);
    expect(told.at(-1)).toBe('length');
    expect(outcomes).toEqual(['length']);
    expect(lines).toMatchObject([
      {
        requestId: 'r1',
        principal: 'somebody',
        peer: '10.0.0.1',
        model: 'model',
        traceId: CONTEXT.trace?.traceId,
        parentId: CONTEXT.trace?.parentId,
        outcome: 'length',
        promptTokens: 2,
        completionTokens: 2,
        queuedMs: expect.any(Number),
      },
    ]);
    expect(lines[0]).not.toHaveProperty('leftMs');
  });

  it('tells in the log how long its caller would still have waited', () => {
    run({ context: { ...CONTEXT, trace: undefined, deadline: performance.now() + 60_000 } });
    emit(104);
    emit(105);
    expect(lines[0]?.leftMs).toBeGreaterThan(50_000);
    expect(lines[0]).not.toHaveProperty('traceId');
  });

  it('counts what it waited for before it was queued as its latency', () => {
    run({ context: { ...CONTEXT, arrivedAt: performance.now() - 5_000 } });
    emit(104);
    emit(105);
    expect(latencies).toHaveLength(2);
    for (const seconds of latencies) expect(seconds).toBeGreaterThanOrEqual(5);
    expect(lines[0]?.firstTokenMs).toBeGreaterThanOrEqual(5_000);
    expect(lines[0]?.durationMs).toBeGreaterThanOrEqual(5_000);
  });

  it('names in the log each loss of its executor that it waited through', () => {
    run();
    generation.interrupted(performance.now());
    generation.interrupted(performance.now());
    emit(104);
    // A hang, which is detected late.
    generation.interrupted(performance.now() - 2_000);
    emit(105);
    expect(lines).toMatchObject([{ recoveryMs: [expect.any(Number), expect.any(Number)] }]);
    expect(Number(String(lines[0]?.recoveryMs).split(',')[1])).toBeGreaterThanOrEqual(2_000);
  });

  it('has no recovery in the log where nothing was lost', () => {
    run();
    emit(104);
    emit(105);
    expect(lines[0]).not.toHaveProperty('recoveryMs');
  });

  it('is counted and logged where it is not run', () => {
    const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
    const runner = new RequestRunner('model', TOKENIZER, backend, observer, limiter, log);
    runner.notRun(PARAMETERS, CONTEXT, 'CONSTRAINT_UNSUPPORTED');
    expect(outcomes).toEqual(['CONSTRAINT_UNSUPPORTED']);
    expect(lines).toMatchObject([{ outcome: 'CONSTRAINT_UNSUPPORTED', completionTokens: 0 }]);
  });

  it('counts the tokens that it returns, and none of a prompt that runs for its embedding', () => {
    run();
    emit(104);
    emit(105);
    expect([counted, latencies.length, lines[0]?.completionTokens]).toEqual([2, 2, 2]);
    run({ isPromptOnly: true });
    emit(104);
    emit(105);
    expect([counted, latencies.length]).toEqual([2, 3]);
    expect(lines.at(-1)).toMatchObject({ promptTokens: 2, completionTokens: 0, outcome: 'length' });
    expect(lines.map((line) => 'firstTokenMs' in line)).toEqual([true, false]);
  });

  it('counts for its principal', () => {
    run();
    expect(generation.sequences[0]?.options.peer).toBe('somebody');
  });

  it('is cancelled when nobody waits for it any more, once', () => {
    const gone = new AbortController();
    const { told } = run({ signal: gone.signal });
    gone.abort();
    gone.abort();
    expect(calls).toEqual(['submit', 'cancel']);
    expect(outcomes).toEqual(['cancelled']);
    expect(told).toEqual([]);
  });

  it('is cancelled at once when nobody waited for it to begin with', () => {
    run({ signal: AbortSignal.abort() });
    expect(calls).toEqual(['submit', 'cancel']);
    expect(outcomes).toEqual(['cancelled']);
  });

  it('is not cancelled once it has ended', () => {
    const gone = new AbortController();
    run({ signal: gone.signal });
    generation.fail(new RocmForgeError('INTERNAL', 'broken'));
    gone.abort();
    expect(calls).toEqual(['submit']);
    expect(outcomes).toEqual(['INTERNAL']);
  });

  it('that is refused counts as ended, and says why', () => {
    refusal = new RocmForgeError('QUEUE_FULL', 'too many');
    expect(() => run()).toThrow('too many');
    expect(outcomes).toEqual(['QUEUE_FULL']);
    expect(lines).toMatchObject([{ outcome: 'QUEUE_FULL', completionTokens: 0 }]);
    refusal = undefined;
    run({ signal: AbortSignal.abort() });
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(line).not.toHaveProperty('firstTokenMs');
    // Neither had a slot.
    expect(latencies).toEqual([undefined, undefined]);
  });

  it('of a principal at its limit is neither queued nor counted, until another of its own has ended', () => {
    limits = { of: () => ({ streams: 1 }) };
    run();
    expect(() => run()).toThrow(expect.objectContaining({ reason: 'RATE_LIMITED' }));
    expect([calls, outcomes, rateLimits]).toEqual([['submit'], [], ['streams']]);
    generation.fail(new RocmForgeError('INTERNAL', 'broken'));
    run();
    expect(calls).toEqual(['submit', 'submit']);
  });

  it('that found no room takes nothing of its principal’s limits', () => {
    limits = { of: () => ({ streams: 1, tokens_per_minute: 2 }) };
    refusal = new RocmForgeError('QUEUE_FULL', 'too many');
    for (let i = 0; i < 3; i++) expect(() => run()).toThrow('too many');
    expect(rateLimits).toEqual([]);
  });

  it('reserves the tokens of its prompt and of its output, and gives back what it did not use', () => {
    const possible = PARAMETERS.promptIds.length + PARAMETERS.stop.maxTokens;
    limits = { of: () => ({ tokens_per_minute: possible }) };
    const limited = expect.objectContaining({ metadata: expect.objectContaining({ limit: 'tokens_per_minute' }) });
    run();
    expect(() => run()).toThrow(limited);
    generation.fail(new RocmForgeError('INTERNAL', 'broken'));
    // The prompt was computed, and more does not come again while the test runs.
    expect(() => run()).toThrow(limited);
    limits = { of: () => ({ tokens_per_minute: possible - PARAMETERS.promptIds.length }) };
    run();
    // Its prompt is all that it may have for now.
    expect(calls).toEqual(['submit', 'submit', 'pause by limit']);
  });

  it('pauses while its principal’s tokens are used up, which its reader is not blamed for', () => {
    vi.useFakeTimers();
    limits = { of: () => ({ tokens_per_minute: 2 }) };
    const { running } = run();
    expect(calls).toEqual(['submit', 'pause by limit']);
    // Of the step in flight.
    emit(104);
    running.pause(true);
    running.pause(false);
    // It is looked at again when the first wait is over.
    vi.advanceTimersByTime(59_000);
    expect(calls).toEqual(['submit', 'pause by limit', 'pause by limit']);
    vi.advanceTimersByTime(1100);
    expect(calls).toEqual(['submit', 'pause by limit', 'pause by limit', 'go on']);
    generation.fail(new RocmForgeError('INTERNAL', 'broken'));
  });

  it('whose reader does not keep up when its principal’s limit lets it go on waits for the reader', () => {
    vi.useFakeTimers();
    limits = { of: () => ({ tokens_per_minute: 2 }) };
    const { running } = run();
    emit(104);
    running.pause(true);
    vi.advanceTimersByTime(61_000);
    running.pause(false);
    expect(calls).toEqual(['submit', 'pause by limit', 'pause by limit', 'pause by reader', 'go on']);
    generation.fail(new RocmForgeError('INTERNAL', 'broken'));
  });

  it('that was admitted without a limit of tokens keeps what it may generate', () => {
    run();
    limits = { of: () => ({ tokens_per_minute: 1 }) };
    emit(104);
    expect(calls).toEqual(['submit']);
    generation.fail(new RocmForgeError('INTERNAL', 'broken'));
  });

  it('whose principal holds its part of the queue is counted by its limit', () => {
    refusal = new RocmForgeError('RATE_LIMITED', 'too many', { limit: 'queue_share' });
    expect(() => run()).toThrow('too many');
    expect([rateLimits, outcomes]).toEqual([['queue_share'], ['RATE_LIMITED']]);
  });

  it('expires after its time limit, unless it has ended', () => {
    vi.useFakeTimers();
    run({ timeLimitMs: 100 });
    vi.advanceTimersByTime(99);
    expect(calls).toEqual(['submit']);
    vi.advanceTimersByTime(1);
    expect(calls).toEqual(['submit', 'expire']);
    run({ timeLimitMs: 100 });
    generation.fail(new RocmForgeError('INTERNAL', 'broken'));
    vi.advanceTimersByTime(1000);
    expect(calls).toEqual(['submit', 'expire', 'submit']);
  });

  it('is paused and goes on with its reader', () => {
    const { running } = run();
    running.pause(true);
    running.pause(false);
    expect(calls).toEqual(['submit', 'pause by reader', 'go on']);
  });
});
