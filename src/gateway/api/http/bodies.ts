import type { IncomingMessage } from 'node:http';
import { RocmForgeError } from '../../../shared/errors.js';
import { tooLarge } from '../../../shared/grpc/strict.js';
import { MIN_FRAME_CHARGE } from '../frame-charge.js';

export interface BodyLimits {
  /** Bytes of one body. */
  readonly maxBytes: number;
  /** Bytes buffered for all bodies that have not arrived completely. */
  readonly maxPendingBytes: number;
}

interface Unfinished {
  readonly principal: string;
  /** Bytes that it holds here, room for what is still to come included. */
  held: number;
  readonly refuse: (error: RocmForgeError) => void;
}

const RETRY_MS = 1000;
const FIRST_BYTES = 1024;
const FIRST_BYTES_MOST = 64 << 10;

/**
 * Bodies of requests that are arriving. If all together exceed `maxPendingBytes`, the largest body of the principal that holds the
 * most is refused, as for gRPC calls.
 */
export class Bodies {
  private readonly unfinished = new Set<Unfinished>();
  private held = 0;
  readonly counters = { refused: 0, slowSenders: 0 };

  constructor(private readonly limits: BodyLimits) {}

  /** Bodies that have not arrived as a whole. */
  get unfinishedCount(): number {
    return this.unfinished.size;
  }

  /**
   * Reads a body to its end.
   *
   * @param maxBytes limit of one body, for paths with a lower one than others
   * @throws RocmForgeError `MESSAGE_TOO_LARGE`; `SLOW_SENDER` where too much is on its way; `MALFORMED_MESSAGE` when the
   *   connection ends before
   */
  read(request: IncomingMessage, principal: string, maxBytes = this.limits.maxBytes): Promise<Buffer> {
    const announced = Number(request.headers['content-length'] ?? 0);
    return new Promise((resolve, reject) => {
      // One buffer that grows: the pieces that come are each a part of a packet, and may be a byte.
      let body = Buffer.alloc(0);
      let bytes = 0;
      let cost = 0;
      const settle = (): void => {
        if (!this.unfinished.delete(entry)) return;
        this.held -= entry.held;
        request.off('data', take);
        request.resume();
      };
      const refuse = (error: RocmForgeError): void => {
        settle();
        reject(error);
      };
      const refuseLarge = (size: number): void => {
        this.counters.refused += 1;
        refuse(tooLarge(size, maxBytes));
      };
      const entry: Unfinished = { principal, held: 0, refuse };
      const grow = (): void => {
        const first = Math.min(Math.max(announced, FIRST_BYTES), FIRST_BYTES_MOST);
        const grown = Buffer.allocUnsafeSlow(Math.max(bytes, 2 * body.length, first));
        body.copy(grown);
        body = grown;
        this.held += grown.length - entry.held;
        entry.held = grown.length;
      };
      const take = (data: Buffer): void => {
        const at = bytes;
        bytes += data.length;
        cost += Math.max(data.length, MIN_FRAME_CHARGE);
        if (bytes > maxBytes || cost > maxBytes + MIN_FRAME_CHARGE) {
          refuseLarge(Math.max(bytes, cost));
          return;
        }
        if (bytes > body.length) grow();
        data.copy(body, at);
        if (this.held > this.limits.maxPendingBytes) this.shed();
      };
      this.unfinished.add(entry);
      if (announced > maxBytes) {
        refuseLarge(announced);
        return;
      }
      request.on('data', take);
      const ended = () => {
        settle();
        reject(new RocmForgeError('MALFORMED_MESSAGE', 'the connection ended before the request did'));
      };
      request.once('end', () => {
        request.off('close', ended);
        settle();
        resolve(body.subarray(0, bytes));
      });
      request.once('close', ended);
    });
  }

  private shed(): void {
    const held = new Map<string, number>();
    for (const entry of this.unfinished) held.set(entry.principal, (held.get(entry.principal) ?? 0) + entry.held);
    const [greediest] = [...held].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
    let largest: Unfinished | undefined;
    for (const entry of this.unfinished) {
      if (entry.principal === greediest && entry.held >= (largest?.held ?? 0)) largest = entry;
    }
    this.counters.slowSenders += 1;
    largest?.refuse(
      new RocmForgeError('SLOW_SENDER', 'too many requests are on their way', { retry_delay_ms: String(RETRY_MS) }),
    );
  }
}
