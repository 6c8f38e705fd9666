import type { IncomingMessage } from 'node:http';
import { RocmForgeError } from '../../../shared/errors.js';
import { tooLarge } from '../../../shared/grpc/strict.js';

export interface BodyLimits {
  /** Bytes of one. */
  readonly most: number;
  /** Bytes of all that have not arrived as a whole. */
  readonly mostUnfinished: number;
}

interface Unfinished {
  readonly principal: string;
  bytes: number;
  readonly refuse: (error: RocmForgeError) => void;
}

const RETRY_MS = 1000;

/**
 * Bodies of requests that are on their way. Where all together hold too much, whoever holds the most loses the largest: as
 * for calls of gRPC.
 */
export class Bodies {
  private readonly unfinished = new Set<Unfinished>();
  private bytes = 0;
  readonly counters = { refused: 0 };

  constructor(private readonly limits: BodyLimits) {}

  /**
   * Reads a body to its end.
   *
   * @throws RocmForgeError `MESSAGE_TOO_LARGE`; `SLOW_SENDER` where too much is on its way; `MALFORMED_MESSAGE` when the
   *   connection ends before
   */
  read(request: IncomingMessage, principal: string): Promise<Buffer> {
    const { most } = this.limits;
    const announced = Number(request.headers['content-length'] ?? 0);
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      const settle = (): void => {
        if (!this.unfinished.delete(entry)) return;
        this.bytes -= entry.bytes;
        request.off('data', take);
        request.resume();
      };
      const refuse = (error: RocmForgeError): void => {
        this.counters.refused += 1;
        settle();
        reject(error);
      };
      const entry: Unfinished = { principal, bytes: 0, refuse };
      const take = (data: Buffer): void => {
        entry.bytes += data.length;
        this.bytes += data.length;
        chunks.push(data);
        if (entry.bytes > most) refuse(tooLarge(entry.bytes, most));
        else if (this.bytes > this.limits.mostUnfinished) this.shed();
      };
      this.unfinished.add(entry);
      if (announced > most) {
        refuse(tooLarge(announced, most));
        return;
      }
      request.on('data', take);
      request.once('end', () => {
        settle();
        resolve(Buffer.concat(chunks));
      });
      request.once('close', () => {
        settle();
        reject(new RocmForgeError('MALFORMED_MESSAGE', 'the connection ended before the request did'));
      });
    });
  }

  private shed(): void {
    const held = new Map<string, number>();
    for (const { principal, bytes } of this.unfinished) held.set(principal, (held.get(principal) ?? 0) + bytes);
    const [greediest] = [...held].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
    let largest: Unfinished | undefined;
    for (const entry of this.unfinished) {
      if (entry.principal === greediest && entry.bytes >= (largest?.bytes ?? 0)) largest = entry;
    }
    largest?.refuse(
      new RocmForgeError('SLOW_SENDER', 'too many requests are on their way', { retry_delay_ms: String(RETRY_MS) }),
    );
  }
}
