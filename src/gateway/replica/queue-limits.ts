import { RocmForgeError } from '../../shared/errors.js';
import type { Generation } from '../request/generation.js';
import type { Sequence } from '../request/sequence.js';
import { rateLimited } from '../trust/limiter.js';
import type { PeerQueue, Waiting } from './scheduler/peer-queue.js';

/** Limits of the queue. */
export interface QueueLimits {
  /** The most sequences that wait for a slot; those that free slots will take do not count. */
  readonly maxQueuedRequests: number;
  /** The most prompt tokens of requests that wait. */
  readonly maxQueuedTokens: number;
  /** The most of those requests that one peer may have, and of those tokens the same part; default all. */
  readonly maxQueuedRequestsPerPeer?: number | undefined;
  /** The part of the queue that a peer may hold, above 0 and at most 1; default all. */
  readonly queueShareOf?: ((peer: string) => number) | undefined;
}

/** The least and the most time after which a client is to try again. */
const [LEAST_RETRY_MS, MOST_RETRY_MS] = [1000, 60_000];

/** A request as the queue sees it. */
export type QueuedRequest = Pick<Generation, 'parameters' | 'context' | 'sequences'>;

/**
 * Requests that have to leave a queue so that another finds room in it: the newest of the peer that has the most
 * waiting, as a whole, and only for a peer that will have less: so what peers hold becomes more equal with each exchange, and
 * no request moves back and forth. Sequences or tokens count, whichever use the larger part of their limit.
 *
 * @param waitingRequest the request of a waiting sequence; undefined when some of it has had a slot, which nobody loses
 * @param slots slots of the executor, and how many of them are free: sequences that they will take do not count as waiting
 * @throws RocmForgeError `INVALID_FIELD` for more completions than can ever wait and run at once; `QUEUE_FULL`; `RATE_LIMITED` beyond
 *   the peer's own part; the latter two with when to try again
 */
export function roomFor<Request extends QueuedRequest>(
  newcomer: QueuedRequest,
  queue: PeerQueue,
  waitingRequest: (sequence: Sequence) => Request | undefined,
  limits: QueueLimits,
  slots: SlotCounts,
): ReadonlySet<Request> {
  const { maxQueuedRequests, maxQueuedTokens, maxQueuedRequestsPerPeer = maxQueuedRequests } = limits;
  const peer = newcomer.context.principal;
  const adding = sizeOf(newcomer);
  checkFitsIdle(adding.sequences, limits, slots.count);
  const own = queue.waitingOf(peer);
  const ownTokens = (maxQueuedTokens * maxQueuedRequestsPerPeer) / maxQueuedRequests;
  // Free slots take sequences with the next step.
  const beyondSlots = Math.max(0, queue.size + adding.sequences - slots.free);
  const ownWaiting = Math.min(own.sequences + adding.sequences, beyondSlots);
  if (ownWaiting > maxQueuedRequestsPerPeer || own.tokens > ownTokens) {
    throw queueFull(own, { requests: maxQueuedRequestsPerPeer, tokens: Math.floor(ownTokens), isOwn: true }, queue);
  }
  const ownPart = limits.queueShareOf?.(peer) ?? 1;
  // One alone always has its turn: a part of a small queue may be less than one request.
  const fits = own.sequences === 0 || ownWaiting <= maxQueuedRequests * ownPart;
  const isBeyond = !fits || own.tokens > maxQueuedTokens * ownPart;
  // A queue that one peer has filled alone is full: no limit was set for the peer.
  if (isBeyond && ownPart < 1) throw rateLimited('queue_share', ownPart, retryMs(queue));
  const most = { requests: maxQueuedRequests, tokens: maxQueuedTokens };
  if (isBeyond) throw queueFull(own, most, queue);
  const share = ({ sequences, tokens }: Waiting) => Math.max(sequences / maxQueuedRequests, tokens / maxQueuedTokens);
  const wanted = share({ sequences: own.sequences + adding.sequences, tokens: own.tokens + adding.tokens });
  const leaving = new Set<Request>();
  const all: Waiting = { sequences: queue.size, tokens: queue.tokens };
  let left = all;
  let holdings: Map<string, Waiting> | undefined;
  while (left.sequences + adding.sequences - slots.free > maxQueuedRequests || left.tokens > maxQueuedTokens) {
    holdings ??= new Map(queue.holdings());
    const [greediest, held] = mostOf(holdings, share);
    if (share(held) <= wanted) throw queueFull(all, most, queue);
    const request = newestOf(queue.waitingSequences(greediest), newcomer.parameters.priority, leaving, waitingRequest);
    if (request === undefined) {
      holdings.delete(greediest);
      continue;
    }
    leaving.add(request);
    left = less(left, sizeOf(request));
    holdings.set(greediest, less(held, sizeOf(request)));
  }
  return leaving;
}

/** Slots of an executor; none while none serves. */
export interface SlotCounts {
  readonly count: number;
  readonly free: number;
}

/** @throws RocmForgeError `INVALID_FIELD` for more completions than an idle executor and an empty queue take */
function checkFitsIdle(n: number, limits: QueueLimits, slots: number): void {
  const { maxQueuedRequests, maxQueuedRequestsPerPeer = maxQueuedRequests } = limits;
  const most = slots + Math.min(maxQueuedRequests, maxQueuedRequestsPerPeer);
  // Without an executor the number of its slots is not known.
  if (slots === 0 || n <= most) return;
  const option = maxQueuedRequestsPerPeer < maxQueuedRequests ? 'max-queued-requests-per-peer' : 'max-queued-requests';
  throw new RocmForgeError(
    'INVALID_FIELD',
    `n is ${n}; it must be at most ${most}: ${slots} sequences run at once, and ${most - slots} may wait (--${option})`,
    { field: 'n' },
  );
}

/**
 * True if `n` sequences, of a further prompt of a request of `peer` that has begun, may wait, too: {@link roomFor} takes them, and leaves
 * half of the peer's room to new requests. Where nothing of the peer waits they may be more than half.
 */
export function hasRoomForMore(peer: string, n: number, queue: PeerQueue, limits: QueueLimits): boolean {
  const { maxQueuedRequests, maxQueuedTokens, maxQueuedRequestsPerPeer = maxQueuedRequests } = limits;
  const part = Math.min(maxQueuedRequestsPerPeer / maxQueuedRequests, limits.queueShareOf?.(peer) ?? 1) / 2;
  const own = queue.waitingOf(peer);
  const fits = own.sequences + n <= maxQueuedRequests * part && own.tokens < maxQueuedTokens * part;
  return (fits || own.sequences === 0) && queue.size + n <= maxQueuedRequests && queue.tokens < maxQueuedTokens;
}

/** A limit of the queue, or of one client in it. */
interface QueueLimit {
  readonly requests: number;
  readonly tokens: number;
  readonly isOwn?: boolean;
}

/** Error for requests that leave a queue for others, and for those that do not get in. */
export function queueFull(
  { sequences, tokens }: Waiting,
  { requests, tokens: most, isOwn }: QueueLimit,
  queue: Pick<PeerQueue, 'departures'>,
): RocmForgeError {
  const waiting = `${sequences} ${sequences === 1 ? 'sequence waits' : 'sequences wait'} already${isOwn ? ' of this client' : ''}, with ${tokens} prompt tokens`;
  const option = isOwn ? 'max-queued-requests-per-peer' : 'max-queued-requests';
  const allowed = `${requests} sequences (--${option}) and ${most} prompt tokens`;
  const metadata = { limit: option, retry_delay_ms: String(retryMs(queue)) };
  return new RocmForgeError(
    'QUEUE_FULL',
    `${waiting}; ${isOwn ? 'a client' : 'the queue'} may have ${allowed}`,
    metadata,
  );
}

/** Time until the queue has another place: the mean interval between those that leave it. */
function retryMs({ departures }: Pick<PeerQueue, 'departures'>): number {
  const interval = departures.intervalMs(performance.now()) ?? LEAST_RETRY_MS;
  return Math.round(Math.min(Math.max(interval, LEAST_RETRY_MS), MOST_RETRY_MS));
}

const NOTHING: Waiting = { sequences: 0, tokens: 0 };

function mostOf(holdings: Iterable<readonly [string, Waiting]>, share: (held: Waiting) => number) {
  let most: readonly [peer: string, held: Waiting] = ['', NOTHING];
  for (const holding of holdings) if (share(holding[1]) > share(most[1])) most = holding;
  return most;
}

/** The last in its peer's order that may leave for a request of some priority. */
function newestOf<Request extends QueuedRequest>(
  waiting: readonly Sequence[],
  priority: number,
  leaving: ReadonlySet<Request>,
  waitingRequest: (sequence: Sequence) => Request | undefined,
): Request | undefined {
  for (const sequence of waiting.toReversed()) {
    if (sequence.options.priority > priority) return undefined;
    const request = waitingRequest(sequence);
    if (request !== undefined && !leaving.has(request)) return request;
  }
  return undefined;
}

function sizeOf({ sequences }: QueuedRequest): Waiting {
  return { sequences: sequences.length, tokens: sequences.reduce((sum, { known }) => sum + known, 0) };
}

function less(from: Waiting, by: Waiting): Waiting {
  return { sequences: from.sequences - by.sequences, tokens: from.tokens - by.tokens };
}
