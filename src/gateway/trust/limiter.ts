import { RocmForgeError } from '../../shared/errors.js';
import { TokenBucket } from '../../shared/token-bucket.js';
import type { LimitName, Limits, PrincipalLimits } from './limits.js';

const SECONDS = 60;
/** When a generation under way may have ended. */
const STREAM_RETRY_MS = 1000;
/** Principals that are remembered: addresses and subjects are as many as somebody likes to have. */
const MOST_REMEMBERED = 16_384;

/** What one generation takes of its principal's limits. */
export interface Usage {
  /** Tokens of the prompt, or generated ones, as they come. */
  spend(tokens: number): void;
  /** The generation has ended. */
  end(): void;
}

/** Who counts what is refused. */
export interface LimitObserver {
  rateLimited(limit: LimitName): void;
}

interface Account {
  requests: TokenBucket | undefined;
  tokens: TokenBucket | undefined;
  streams: number;
}

/**
 * Holds principals to their limits. Requests and tokens a minute are buckets that hold a minute's worth; what a generation
 * takes is known only as it comes, so a bucket of tokens may become negative, and its principal waits until it is not.
 */
export class Limiter {
  /** Least lately seen first. */
  private readonly accounts = new Map<string, Account>();

  /** @param nowMs of a clock that never goes back */
  constructor(
    private readonly limits: () => Limits,
    private readonly observer: LimitObserver,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /**
   * Counts a call, before its request is read.
   *
   * @param isGeneration what is refused to generations is not refused to calls that ask for none
   * @throws RocmForgeError `RATE_LIMITED`, with when to try again
   */
  admit(principal: string, isGeneration: boolean): void {
    const limits = this.limits().of(principal);
    const account = this.accountOf(principal);
    if (isGeneration) this.checkGeneration(account, limits);
    const { requests_per_minute: most } = limits;
    if (most === undefined) return;
    account.requests ??= new TokenBucket(most, this.nowMs());
    const left = account.requests.level(most, most / SECONDS, this.nowMs());
    if (left < 1) throw this.refusal('requests_per_minute', most, ((1 - left) / most) * SECONDS * 1000);
    account.requests.take(1);
  }

  /**
   * Begins a generation.
   *
   * @throws RocmForgeError `RATE_LIMITED`, with when to try again
   */
  begin(principal: string): Usage {
    const account = this.accountOf(principal);
    this.checkGeneration(account, this.limits().of(principal));
    account.streams += 1;
    let isOver = false;
    return {
      spend: (tokens) => {
        const { tokens_per_minute: most } = this.limits().of(principal);
        if (most === undefined) return;
        account.tokens ??= new TokenBucket(most, this.nowMs());
        account.tokens.level(most, most / SECONDS, this.nowMs());
        account.tokens.take(tokens);
      },
      end: () => {
        if (!isOver) account.streams -= 1;
        isOver = true;
      },
    };
  }

  /** The part of the queue that a principal may hold. */
  queueShareOf(principal: string): number {
    return this.limits().of(principal).queue_share ?? 1;
  }

  /** Somebody else found a principal at its limit. */
  countRefusal(limit: LimitName): void {
    this.observer.rateLimited(limit);
  }

  private checkGeneration(account: Account, limits: PrincipalLimits): void {
    const { streams, tokens_per_minute: most } = limits;
    if (streams !== undefined && account.streams >= streams) throw this.refusal('streams', streams, STREAM_RETRY_MS);
    if (most === undefined) return;
    const left = account.tokens?.level(most, most / SECONDS, this.nowMs()) ?? 0;
    if (left < 0) throw this.refusal('tokens_per_minute', most, (-left / most) * SECONDS * 1000);
  }

  private refusal(limit: LimitName, most: number, retryMs: number): RocmForgeError {
    this.countRefusal(limit);
    return rateLimited(limit, most, retryMs);
  }

  private accountOf(principal: string): Account {
    const account = this.accounts.get(principal) ?? { requests: undefined, tokens: undefined, streams: 0 };
    this.accounts.delete(principal);
    this.accounts.set(principal, account);
    if (this.accounts.size > MOST_REMEMBERED) this.forgetOne();
    return account;
  }

  /** Whoever was not seen for longest and runs nothing. */
  private forgetOne(): void {
    for (const [principal, { streams }] of this.accounts) {
      if (streams > 0) continue;
      this.accounts.delete(principal);
      return;
    }
  }
}

/** What a principal is told that has reached a limit. */
export function rateLimited(limit: LimitName, most: number, retryMs: number): RocmForgeError {
  const retry = String(Math.max(1, Math.ceil(retryMs)));
  const message = `the limit ${limit} of ${most} is reached; try again in ${retry} ms`;
  return new RocmForgeError('RATE_LIMITED', message, { limit, retry_delay_ms: retry });
}
