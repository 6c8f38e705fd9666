import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BoundedLog } from '../../../shared/bounded-log.js';
import { peerOf } from '../peer.js';
import { connectionOf } from './exchange.js';

export interface UnreadLimits {
  /** Time that written bytes may make no progress to their reader. */
  readonly timeoutMs: number;
  /** Bytes of all responses that clients have not read yet. */
  readonly maxBytes: number;
}

interface Answer {
  readonly response: ServerResponse;
  readonly peer: string;
  unread: number;
  progressAt: number;
}

const SWEEP_INTERVAL_MS = 250;

/**
 * Bounds unread responses, as those of gRPC calls are bounded: one that makes no progress is ended, and if all together exceed
 * `maxBytes`, the largest response of the peer that holds the most is ended.
 */
export class UnreadResponses {
  private readonly answers = new Set<Answer>();
  private timer: NodeJS.Timeout | undefined;
  readonly counters = { slowReaders: 0 };

  constructor(
    private readonly limits: UnreadLimits,
    private readonly log?: BoundedLog,
  ) {}

  /** @param peer whom the answer counts for; default: the connection's address */
  watch(
    request: IncomingMessage,
    response: ServerResponse,
    peer = peerOf({ getPeer: () => connectionOf(request) }),
  ): void {
    const answer: Answer = { response, peer, unread: 0, progressAt: performance.now() };
    this.answers.add(answer);
    response.once('close', () => {
      this.answers.delete(answer);
      if (this.answers.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    });
    this.timer ??= setInterval(() => this.sweep(), SWEEP_INTERVAL_MS).unref();
  }

  private sweep(): void {
    const now = performance.now();
    let unread = 0;
    for (const answer of this.answers) {
      const left = answer.response.writableLength;
      if (left === 0 || left < answer.unread) answer.progressAt = now;
      answer.unread = left;
      unread += left;
      if (now - answer.progressAt > this.limits.timeoutMs) this.cancel(answer);
    }
    while (unread > this.limits.maxBytes) {
      const greediest = this.largestOfGreediest();
      if (greediest === undefined) return;
      unread -= greediest.unread;
      greediest.unread = 0;
      this.cancel(greediest);
    }
  }

  /** Its reader cannot be told: all that is written would wait behind what is unread. */
  private cancel({ response, peer }: Answer): void {
    this.counters.slowReaders += 1;
    this.log?.note(() => ({ peer, reason: 'SLOW_READER' }), 'a response was not read and is given up');
    response.destroy();
  }

  private largestOfGreediest(): Answer | undefined {
    const sums = new Map<string, number>();
    for (const { peer, unread } of this.answers) sums.set(peer, (sums.get(peer) ?? 0) + unread);
    const [greediest] = [...sums].reduce((most, entry) => (entry[1] > most[1] ? entry : most), ['', 0]);
    let largest: Answer | undefined;
    for (const answer of this.answers) {
      if (answer.peer === greediest && answer.unread > (largest?.unread ?? 0)) largest = answer;
    }
    return largest;
  }
}
