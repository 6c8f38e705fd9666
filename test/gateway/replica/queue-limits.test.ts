import { fc, test } from '@fast-check/vitest';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { Engine } from '../../../src/gateway/replica/engine.js';
import { hasRoomForMore, type QueuedRequest, roomFor } from '../../../src/gateway/replica/queue-limits.js';
import { PeerQueue } from '../../../src/gateway/replica/scheduler/peer-queue.js';
import { Generation, type GenerationParameters } from '../../../src/gateway/request/generation.js';
import { GREEDY } from '../../../src/gateway/request/sequence.js';
import { StopStrings } from '../../../src/lib/tokenizer/stop-matcher.js';
import { asRocmForgeError } from '../../../src/shared/errors.js';
import { smallBpe, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';

const TOKENIZER = tokenizerOf(smallBpe());
const STOP: GenerationParameters['stop'] = {
  strings: new StopStrings([]),
  tokenIds: new Set(),
  includeStopString: false,
  ignoreEos: true,
  maxTokens: 2,
  minTokens: 0,
  includeSpecialTokens: false,
};

interface Wish {
  readonly peer: string;
  readonly n?: number;
  /** Tokens of its prompt. */
  readonly tokens?: number;
  readonly priority?: number;
}

function generationOf({ peer, n = 1, tokens = 1, priority = 0 }: Wish, onError = (_reason: string): void => undefined) {
  const parameters = {
    promptIds: new Uint32Array(tokens),
    sampling: GREEDY,
    stop: STOP,
    n,
    priority,
    timeLimitMs: 0,
    promptText: undefined,
  };
  const context = { id: '', principal: peer, peer, trace: undefined, deadline: Number.POSITIVE_INFINITY, arrivedAt: 0 };
  const nothing = () => undefined;
  const error = ({ reason }: { reason: string }) => onError(reason);
  return new Generation(parameters, context, TOKENIZER, {
    chunk: nothing,
    progress: nothing,
    prompt: nothing,
    complete: nothing,
    error,
  });
}

/** A queue with its requests, as an engine has them. */
class World {
  readonly queue = new PeerQueue();
  readonly requests = new Set<Generation>();
  readonly started = new Set<Generation>();

  constructor(
    private readonly limits: Parameters<typeof roomFor>[3],
    private readonly refusal: 'QUEUE_FULL' | 'RATE_LIMITED' | 'INVALID_FIELD' = 'QUEUE_FULL',
    private readonly slots = { count: 0, free: 0 },
  ) {}

  /** The requests that left for this one; undefined when it was refused. */
  submit(request: Generation): ReadonlySet<Generation> | undefined {
    let leaving: ReadonlySet<Generation>;
    try {
      leaving = roomFor(
        request,
        this.queue,
        (sequence) =>
          [...this.requests].find((other) => other.sequences.includes(sequence) && !this.started.has(other)),
        this.limits,
        this.slots,
      );
    } catch (error) {
      expect(asRocmForgeError(error).reason).toBe(this.refusal);
      return undefined;
    }
    for (const other of leaving) this.leave(other);
    this.requests.add(request);
    for (const sequence of request.sequences) this.queue.add(sequence);
    return leaving;
  }

  leave(request: Generation): void {
    for (const sequence of request.sequences) this.queue.remove(sequence);
    this.requests.delete(request);
  }
}

const held = (queue: PeerQueue, { context }: QueuedRequest) => queue.waitingOf(context.principal);

it('refuses who holds its part of the queue, in requests or in tokens, and nobody else', () => {
  const part = { maxQueuedRequests: 8, maxQueuedTokens: 80, queueShareOf: (peer: string) => (peer === 'a' ? 0.25 : 1) };
  const world = new World(part, 'RATE_LIMITED');
  const taken = (wish: Wish) => world.submit(generationOf(wish)) !== undefined;
  expect([taken({ peer: 'a' }), taken({ peer: 'a' }), taken({ peer: 'a' })]).toEqual([true, true, false]);
  expect([taken({ peer: 'b' }), taken({ peer: 'b' }), taken({ peer: 'b' })]).toEqual([true, true, true]);
  const wide = new World(part, 'RATE_LIMITED');
  const long = { peer: 'a', tokens: 30 };
  expect(wide.submit(generationOf(long))).toBeDefined();
  expect(wide.submit(generationOf(long))).toBeUndefined();
});

it('lets one request of a principal wait, however small its part of the queue', () => {
  const world = new World({ maxQueuedRequests: 2, maxQueuedTokens: 80, queueShareOf: () => 0.1 }, 'RATE_LIMITED');
  expect(world.submit(generationOf({ peer: 'a' }))).toBeDefined();
  expect(world.submit(generationOf({ peer: 'a' }))).toBeUndefined();
});

test.prop([
  fc.array(
    fc.record({
      peer: fc.constantFrom('a', 'b'),
      n: fc.integer({ min: 1, max: 4 }),
      tokens: fc.integer({ min: 1, max: 20 }),
    }),
    { maxLength: 24 },
  ),
  fc.integer({ min: 1, max: 12 }),
  fc.constantFrom(0.1, 0.5, 1),
])('takes a further prompt where it says that it has room, and a new request behind it', (wishes, most, share) => {
  const limits = {
    ...{ maxQueuedRequests: 12, maxQueuedTokens: 120, maxQueuedRequestsPerPeer: most },
    queueShareOf: () => share,
  };
  const world = new World(limits, 'RATE_LIMITED');
  for (const { peer, n, tokens } of wishes) {
    // As roomFor did for the first prompt of its request.
    if (n > most || !hasRoomForMore(peer, n, world.queue, limits)) continue;
    expect(world.submit(generationOf({ peer, n, tokens }))).toBeDefined();
  }
  const part = Math.min(most / limits.maxQueuedRequests, share) / 2;
  for (const peer of ['a', 'b'])
    expect(world.queue.waitingOf(peer).sequences).toBeLessThanOrEqual(Math.max(4, limits.maxQueuedRequests * part));
});

it('does not count sequences that free slots will take', () => {
  const limits = { maxQueuedRequests: 4, maxQueuedTokens: 80, maxQueuedRequestsPerPeer: 2, queueShareOf: () => 0.5 };
  const idle = new World(limits, 'QUEUE_FULL', { count: 4, free: 4 });
  expect(idle.submit(generationOf({ peer: 'a', n: 5 }))).toBeDefined();
  expect(idle.submit(generationOf({ peer: 'a' }))).toBeDefined();
  expect(idle.submit(generationOf({ peer: 'a' }))).toBeUndefined();
  expect(idle.submit(generationOf({ peer: 'b', n: 2 }))?.size).toBe(0);
  const busy = new World(limits, 'QUEUE_FULL', { count: 4, free: 1 });
  expect(busy.submit(generationOf({ peer: 'a', n: 3 }))).toBeDefined();
  expect(busy.submit(generationOf({ peer: 'a' }))).toBeUndefined();
});

it('rejects more completions than an idle executor and an empty queue take, which no retry can change', () => {
  const limits = { maxQueuedRequests: 4, maxQueuedTokens: 80, maxQueuedRequestsPerPeer: 2 };
  const world = new World(limits, 'INVALID_FIELD', { count: 4, free: 0 });
  expect(() => world.submit(generationOf({ peer: 'a', n: 7 }))).not.toThrow();
  expect(world.queue.size).toBe(0);
  const waiting = new World(limits, 'QUEUE_FULL', { count: 4, free: 0 });
  expect(waiting.submit(generationOf({ peer: 'a', n: 6 }))).toBeUndefined();
  expect(() =>
    roomFor(generationOf({ peer: 'a', n: 7 }), new PeerQueue(), () => undefined, limits, { count: 4, free: 4 }),
  ).toThrow('n is 7; it must be at most 6: 4 sequences run at once, and 2 may wait (--max-queued-requests-per-peer)');
});

it('is full, not limited, for a client that has filled it alone without a limit of its own', () => {
  const world = new World({ maxQueuedRequests: 2, maxQueuedTokens: 80, queueShareOf: () => 1 }, 'QUEUE_FULL');
  const taken = Array.from({ length: 3 }, () => world.submit(generationOf({ peer: 'a' })) !== undefined);
  expect(taken).toEqual([true, true, false]);
});

describe('a full queue', () => {
  it('takes a peer that has nothing, and the newest request of the one that has the most leaves, whole', () => {
    const world = new World({ maxQueuedRequests: 12, maxQueuedTokens: 1000 });
    const requests = [
      { peer: 'a', n: 4 },
      { peer: 'b', n: 2 },
      { peer: 'a', n: 3 },
      { peer: 'c', n: 3 },
    ].map((wish) => generationOf(wish));
    for (const request of requests) expect(world.submit(request)?.size).toBe(0);
    expect(world.submit(generationOf({ peer: 'd' }))).toEqual(new Set([requests[2]]));
    expect(world.queue.size).toBe(10);
  });

  it('refuses a peer that would have as much as any other', () => {
    const world = new World({ maxQueuedRequests: 4, maxQueuedTokens: 1000 });
    for (const peer of ['a', 'a', 'b', 'b']) world.submit(generationOf({ peer }));
    expect(world.submit(generationOf({ peer: 'c', n: 2 }))).toBeUndefined();
    expect(world.submit(generationOf({ peer: 'a' }))).toBeUndefined();
    expect(world.submit(generationOf({ peer: 'c' }))?.size).toBe(1);
  });

  it('of tokens goes by tokens', () => {
    const world = new World({ maxQueuedRequests: 100, maxQueuedTokens: 100 });
    const long = generationOf({ peer: 'a', tokens: 101 });
    world.submit(long);
    for (let i = 0; i < 5; i++) world.submit(generationOf({ peer: 'b' }));
    expect(world.requests.has(long)).toBe(false);
    expect(world.queue.size).toBe(5);
  });

  it('lets nobody leave who has had a slot, or has a higher priority', () => {
    const world = new World({ maxQueuedRequests: 4, maxQueuedTokens: 1000 });
    const [first, second, third, fourth] = [0, 1, 0, 1].map((priority) => generationOf({ peer: 'a', priority }));
    for (const request of [first, second, third, fourth]) world.submit(request as Generation);
    world.started.add(third as Generation);
    expect(world.submit(generationOf({ peer: 'b' }))).toEqual(new Set([first]));
    expect(world.submit(generationOf({ peer: 'c' }))).toBeUndefined();
    expect(world.submit(generationOf({ peer: 'c', priority: 1 }))).toEqual(new Set([fourth]));
  });

  const wishes = fc.array(
    fc.record({
      peer: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      n: fc.integer({ min: 1, max: 6 }),
      tokens: fc.integer({ min: 1, max: 40 }),
      starts: fc.boolean(),
    }),
    { maxLength: 80 },
  );
  test.prop([wishes, fc.integer({ min: 6, max: 30 }), fc.integer({ min: 6, max: 30 })])(
    'keeps its limits, and exchanges only what makes peers more equal',
    (list, maxQueuedRequests, perPeer) => {
      const maxQueuedTokens = 200;
      const maxQueuedRequestsPerPeer = Math.min(perPeer, maxQueuedRequests);
      const world = new World({ maxQueuedRequests, maxQueuedTokens, maxQueuedRequestsPerPeer });
      for (const { starts, ...wish } of list) {
        const request = generationOf(wish);
        const { queue } = world;
        const before = new Map(queue.holdings());
        const own = held(queue, request);
        const leaving = world.submit(request);
        const sum = wish.n * wish.tokens;
        if (leaving === undefined) continue;
        for (const { context } of leaving) {
          const { sequences = 0, tokens = 0 } = before.get(context.principal) ?? {};
          const share = Math.max(sequences / maxQueuedRequests, tokens / maxQueuedTokens);
          const wanted = Math.max((own.sequences + wish.n) / maxQueuedRequests, (own.tokens + sum) / maxQueuedTokens);
          expect(share).toBeGreaterThan(wanted);
          expect(context.principal).not.toBe(wish.peer);
        }
        expect([...leaving].some((other) => world.started.has(other))).toBe(false);
        expect(queue.size).toBeLessThanOrEqual(maxQueuedRequests);
        expect(queue.tokens - sum).toBeLessThanOrEqual(maxQueuedTokens);
        const counted = [...world.requests].reduce((total, { sequences }) => total + sequences.length, 0);
        expect(queue.size).toBe(counted);
        if (starts) world.started.add(request);
      }
    },
  );

  test.prop([wishes, fc.integer({ min: 6, max: 30 })])(
    'takes a short request of a peer that has nothing, whatever five others have waiting',
    (list, maxQueuedRequests) => {
      const world = new World({ maxQueuedRequests, maxQueuedTokens: 200 });
      for (const { starts: _, ...wish } of list) world.submit(generationOf(wish));
      expect(world.submit(generationOf({ peer: 'z' }))).toBeDefined();
    },
  );

  test.prop([wishes])('comes to rest though all who left come again at once', (list) => {
    const world = new World({ maxQueuedRequests: 12, maxQueuedTokens: 150 });
    const pending = list.map(({ starts: _, ...wish }) => wish as Wish);
    let exchanges = 0;
    for (let wish = pending.shift(); wish !== undefined; wish = pending.shift()) {
      for (const { context, parameters } of world.submit(generationOf(wish)) ?? []) {
        exchanges += 1;
        pending.push({ peer: context.principal, n: parameters.n, tokens: parameters.promptIds.length });
      }
      expect(exchanges).toBeLessThan(10_000);
    }
  });
});

describe('while there has been no executor yet', () => {
  const limits = { maxQueuedRequests: 1024, maxQueuedTokens: 10_000, maxQueuedRequestsPerPeer: 256 };
  const engine = () =>
    new Engine(
      { ...limits, pipelineDepth: 2, prefixCache: true },
      {
        stepCompleted: () => undefined,
        resumed: () => undefined,
        sessionLost: () => undefined,
        admitted: () => undefined,
        hasRoom: () => undefined,
        saved: () => undefined,
        savedReleased: async () => undefined,
      },
      pino({ level: 'silent' }),
    );
  const submitted = (to: Engine, wish: Wish) => {
    let reason = 'waits';
    const generation = generationOf(wish, (told) => {
      reason = told;
    });
    try {
      to.submit(generation);
    } catch (error) {
      reason = asRocmForgeError(error).reason;
    }
    return { generation, reason: () => reason };
  };

  it('one peer’s requests are its own, and refuse nobody else', () => {
    const early = engine();
    const first = Array.from({ length: 4 }, () => submitted(early, { peer: 'a', n: 64 }));
    expect(submitted(early, { peer: 'a' }).reason()).toBe('QUEUE_FULL');
    expect(submitted(early, { peer: 'b' }).reason()).toBe('waits');
    expect(first.map(({ reason }) => reason())).toEqual(Array(4).fill('waits'));
    early.cancel(first[0]?.generation as Generation);
    expect(submitted(early, { peer: 'a', n: 64 }).reason()).toBe('waits');
  });

  it('tokens of prompts count', () => {
    const early = engine();
    submitted(early, { peer: 'a', tokens: 2501 });
    expect(submitted(early, { peer: 'a' }).reason()).toBe('QUEUE_FULL');
    expect(submitted(early, { peer: 'b' }).reason()).toBe('waits');
  });

  it('four peers that fill the queue make room for a fifth', () => {
    const early = engine();
    const all = ['a', 'b', 'c', 'd'].flatMap((peer) =>
      Array.from({ length: 4 }, () => submitted(early, { peer, n: 64 })),
    );
    expect(submitted(early, { peer: 'e' }).reason()).toBe('waits');
    expect(all.filter(({ reason }) => reason() === 'QUEUE_FULL')).toEqual([all[3]]);
    expect(early.sequences).toBe(1024 - 64 + 1);
  });
});

it('tells a client to come again when the queue will have a place, from one second to a minute', () => {
  const delayOf = (intervalMs: number): string | undefined => {
    const queue = new PeerQueue();
    queue.departures.left(1, performance.now() - 2 * intervalMs);
    queue.departures.left(0, performance.now() - intervalMs);
    const limits = { maxQueuedRequests: 0, maxQueuedTokens: 80 };
    try {
      roomFor(generationOf({ peer: 'a' }), queue, () => undefined, limits, { count: 1, free: 0 });
    } catch (error) {
      return asRocmForgeError(error).metadata.retry_delay_ms;
    }
    return undefined;
  };
  expect(delayOf(20)).toBe('1000');
  const seconds = Number(delayOf(9000));
  expect(seconds).toBeGreaterThan(8990);
  expect(seconds).toBeLessThan(9500);
  expect(delayOf(600_000)).toBe('60000');
});
