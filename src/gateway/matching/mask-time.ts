import { TokenBucket } from '../../shared/token-bucket.js';

/** Time limits of token masks. */
export const MASK_TIME = {
  /** Milliseconds of one mask that are not counted: an ordinary one takes less. */
  freeMs: 20,
  /** Milliseconds of slow masks that a client may use at once. */
  burstMs: 1000,
  /** Milliseconds of slow masks that a client may use in each second. */
  perSecondMs: 50,
} as const;

/** Clients that are remembered, which had a slow mask. */
const MOST_REMEMBERED = 4096;

/** Time that the masks of clients' answers have taken beyond what an ordinary mask takes. */
export class MaskTime {
  /** The one charged last at the end. */
  private readonly buckets = new Map<string, TokenBucket>();

  /** @param nowMs of a clock that never goes back */
  constructor(private readonly nowMs: () => number) {}

  /** Counts a mask that took `ms`. @returns whether its client has used up its time, and this mask was a slow one */
  charge(client: string, ms: number): boolean {
    const slowMs = ms - MASK_TIME.freeMs;
    if (slowMs <= 0) return false;
    const bucket = this.buckets.get(client) ?? new TokenBucket(MASK_TIME.burstMs, this.nowMs());
    this.buckets.delete(client);
    this.buckets.set(client, bucket);
    const [oldest] = this.buckets.keys();
    if (this.buckets.size > MOST_REMEMBERED && oldest !== undefined) this.buckets.delete(oldest);
    const left = bucket.level(MASK_TIME.burstMs, MASK_TIME.perSecondMs, this.nowMs());
    bucket.take(Math.min(slowMs, left + MASK_TIME.burstMs));
    return slowMs > left;
  }
}
