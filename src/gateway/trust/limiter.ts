import { RocmForgeError } from '../../shared/errors.js';
import { TokenBucket } from '../../shared/token-bucket.js';
import type { LimitName, Limits, PrincipalLimits } from './limits.js';

const SECONDS = 60;
/** When a generation under way may have ended. */
const STREAM_RETRY_MS = 1000;
/** Principals that are remembered: addresses and subjects are as many as somebody likes to have. */
const MOST_REMEMBERED = 16_384;

/** Share of its principal's limits that one generation uses. */
export interface Usage {
  /**
   * Tokens of the prompt, or generated ones, as they come.
   *
   * @returns milliseconds for which the generation must pause; 0 if it may continue
   */
  spend(tokens: number): number;
  /** Milliseconds for which a paused generation must still wait; 0 if it may continue. */
  waitMs(): number;
  /** The generation has ended: what it reserved and did not use is given back. */
  end(): void;
}

/** Counter of refusals. */
export interface LimitObserver {
  rateLimited(limit: LimitName): void;
}

interface Account {
  requests: TokenBucket | undefined;
  tokens: TokenBucket | undefined;
  streams: number;
}

/**
 * Holds principals to their limits. Requests and tokens a minute are buckets that hold a minute's worth. A generation reserves
 * its prompt and its possible output, at most the whole bucket; beyond what it reserved it pauses while the bucket holds less than
 * the step in flight may add, so the debt is one step of each generation at most.
 */
export class Limiter {
  /** Least lately seen first. */
  private readonly accounts = new Map<string, Account>();

  /** @param nowMs of a clock that never goes back */
  constructor(
    private readonly limits: () => Pick<Limits, 'of'>,
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
   * @param promptTokens tokens of its prompt
   * @param outputTokens tokens of all its completions at their longest
   * @param stepTokens tokens that still come from a step in flight when it is paused
   * @throws RocmForgeError `RATE_LIMITED`, with when to try again; `PROMPT_TOO_LONG` for a prompt of more than a minute's tokens
   */
  begin(principal: string, promptTokens: number, outputTokens: number, stepTokens = 0): Usage {
    const account = this.accountOf(principal);
    const limits = this.limits().of(principal);
    const { tokens_per_minute: mostTokens } = limits;
    if (mostTokens !== undefined && promptTokens > mostTokens) {
      const message = `the prompt has ${promptTokens} tokens, more than the token limit per minute (${mostTokens}); shorten it`;
      throw new RocmForgeError('PROMPT_TOO_LONG', message, { limit: 'tokens_per_minute' });
    }
    const possible = promptTokens + outputTokens;
    const reserved = this.reserve(account, limits, possible);
    // A generation that begins without a limit keeps what it was admitted with.
    const granted = mostTokens === undefined ? possible : reserved;
    account.streams += 1;
    let isOver = false;
    let used = 0;
    const waitMs = (): number => {
      const { tokens_per_minute: most } = this.limits().of(principal);
      const needed = Math.min(stepTokens, possible - used);
      if (most === undefined || used + needed <= granted) return 0;
      const left = Math.max(0, granted - used) + this.levelOf(account, most);
      // A bucket that is smaller than a step is enough when it is full.
      const missing = Math.min(needed, most) - left;
      return missing <= 0 ? 0 : Math.ceil((missing / most) * SECONDS * 1000);
    };
    return {
      spend: (tokens) => {
        const { tokens_per_minute: most } = this.limits().of(principal);
        const covered = Math.max(0, Math.min(tokens, granted - used));
        used += tokens;
        if (most === undefined) return 0;
        this.levelOf(account, most);
        account.tokens?.take(tokens - covered);
        return waitMs();
      },
      waitMs,
      end: () => {
        if (isOver) return;
        isOver = true;
        account.streams -= 1;
        account.tokens?.take(Math.min(0, used - reserved));
      },
    };
  }

  /** Generations that the principal may begin beside those under way, as far as their number is limited. */
  freeStreams(principal: string): number {
    const { streams = Number.POSITIVE_INFINITY } = this.limits().of(principal);
    return Math.max(0, streams - (this.accounts.get(principal)?.streams ?? 0));
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
    const left = this.levelOf(account, most);
    if (left < 0) throw this.refusal('tokens_per_minute', most, (-left / most) * SECONDS * 1000);
  }

  /** @returns tokens that were taken for the generation before it begins */
  private reserve(account: Account, limits: PrincipalLimits, possibleTokens: number): number {
    this.checkGeneration(account, limits);
    const { tokens_per_minute: most } = limits;
    if (most === undefined) return 0;
    const reserved = Math.min(possibleTokens, most);
    const left = this.levelOf(account, most);
    if (left < reserved) {
      throw this.refusal('tokens_per_minute', most, ((reserved - left) / most) * SECONDS * 1000);
    }
    account.tokens?.take(reserved);
    return reserved;
  }

  /** Tokens in the bucket now. */
  private levelOf(account: Account, most: number): number {
    account.tokens ??= new TokenBucket(most, this.nowMs());
    return account.tokens.level(most, most / SECONDS, this.nowMs());
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

/** Limits as messages name them. */
const LIMIT_TEXTS: Readonly<Record<LimitName, string>> = {
  requests_per_minute: 'request limit per minute',
  tokens_per_minute: 'token limit per minute',
  streams: 'concurrent stream limit',
  queue_share: 'queue share limit',
};

/** Error for a principal that has reached a limit. */
export function rateLimited(limit: LimitName, most: number, retryMs: number): RocmForgeError {
  const retry = String(Math.max(1, Math.ceil(retryMs)));
  const message = `${LIMIT_TEXTS[limit]} (${most}) reached; try again in ${retry} ms`;
  return new RocmForgeError('RATE_LIMITED', message, { limit, retry_delay_ms: retry });
}
