import { RocmForgeError } from '../../shared/errors.js';

/** How much may wait. */
export interface QueueLimits {
  /** The most requests that wait for a slot. */
  readonly maxQueuedRequests: number;
  /** The most prompt tokens of requests that wait. */
  readonly maxQueuedTokens: number;
  /** The most of those requests that one peer may have, and of those tokens the same part; default all. */
  readonly maxQueuedRequestsPerPeer?: number | undefined;
}

/** What waits already. */
export interface Waiting {
  readonly sequences: number;
  /** Of their prompts. */
  readonly tokens: number;
}

const QUEUE_RETRY_MS = 1000;

/**
 * Refuses a request for which the queue has no room.
 *
 * @param adding its sequences
 * @param all what waits in all
 * @param own what waits of the same peer
 * @throws RocmForgeError `QUEUE_FULL`, with when to try again
 */
export function checkQueue(adding: number, all: Waiting, own: Waiting, limits: QueueLimits): void {
  const { maxQueuedRequests, maxQueuedTokens, maxQueuedRequestsPerPeer = maxQueuedRequests } = limits;
  if (all.sequences + adding > maxQueuedRequests || all.tokens > maxQueuedTokens) throw full('', all);
  const ownTokens = (maxQueuedTokens * maxQueuedRequestsPerPeer) / maxQueuedRequests;
  if (own.sequences + adding > maxQueuedRequestsPerPeer || own.tokens > ownTokens) throw full(' of this peer', own);
}

function full(who: string, { sequences, tokens }: Waiting): RocmForgeError {
  return new RocmForgeError('QUEUE_FULL', `${sequences} sequences${who} wait already, ${tokens} tokens of prompts`, {
    retry_delay_ms: String(QUEUE_RETRY_MS),
  });
}
