import { ipOf, siteOf } from '../../shared/address.js';
import { RocmForgeError } from '../../shared/errors.js';
import { TokenBucket } from '../../shared/token-bucket.js';
import type { ForwardedHeaders, TrustedProxies } from './trusted-proxies.js';

/** Headers by which a request's sender is known. */
export interface SenderHeaders extends ForwardedHeaders {
  readonly authorization?: string | undefined;
  readonly 'x-api-key'?: string | string[] | undefined;
}

/** Calls that a client may cancel before any answer: at once, and a second. */
const CANCELS = { burst: 200, perSecond: 20 };
/** Actions that cost the gateway much more than a cancel, such as a call in thousands of all but empty frames. */
const VIOLATION_CANCELS = CANCELS.burst / 5;
/** Clients of which something is known. */
const MOST_CLIENTS = 4096;

/**
 * Clients behind trusted proxies. What is limited by connection or address elsewhere is limited here by principal, where the
 * request's credential is known, else by the address that the proxy tells: their connections are the proxy's, and one client's
 * cancels are not to cost the others.
 */
export class ProxiedClients {
  /** Least lately seen first. */
  private readonly cancels = new Map<string, TokenBucket>();

  constructor(
    private readonly proxies: TrustedProxies,
    /** The principal of a bearer's header, where that is known without verifying anything. */
    private readonly knownPrincipal: (authorization: string) => string | undefined,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** True if a connection is a trusted proxy's. @param connection `ADDRESS:PORT`, or `unix:N` */
  isProxy(connection: string): boolean {
    return !this.proxies.isEmpty && this.proxies.has(ipOf(connection));
  }

  /**
   * Client that sends a request, for all that is shared out by address: the one that a trusted proxy names, else the connection's
   * own.
   */
  peerOf(connection: string, headers: ForwardedHeaders): string {
    const address = ipOf(connection);
    return siteOf(this.proxies.isEmpty ? address : this.proxies.clientOf(address, headers));
  }

  /** Whom a request of a trusted proxy counts for; undefined where the connection is its client's own. */
  clientOf(connection: string, headers: SenderHeaders): string | undefined {
    if (!this.isProxy(connection)) return undefined;
    const { authorization, 'x-api-key': key } = headers;
    const credential = authorization ?? (typeof key === 'string' ? `Bearer ${key}` : undefined);
    const principal = credential === undefined ? undefined : this.knownPrincipal(credential);
    return principal ?? this.peerOf(connection, headers);
  }

  /** A client has cancelled a call before any answer. */
  cancelled(client: string, calls = 1): void {
    const bucket = this.bucketOf(client);
    // The debt is bounded, so that a client that stops is served again within seconds.
    if (this.levelOf(bucket) > -CANCELS.perSecond) bucket.take(calls);
  }

  /** A client did what no client does and what costs much more than its bytes. */
  violated(client: string): void {
    this.cancelled(client, VIOLATION_CANCELS);
  }

  /** Why a client's calls are refused now: `RATE_LIMITED`, with when to try again; undefined where they are taken. */
  refusalOf(client: string): RocmForgeError | undefined {
    const bucket = this.cancels.get(client);
    if (bucket === undefined) return undefined;
    const left = this.levelOf(bucket);
    if (left >= 1) return undefined;
    const retryMs = Math.ceil(((1 - left) / CANCELS.perSecond) * 1000);
    const message = `too many calls were cancelled before an answer; try again in ${retryMs} ms`;
    return new RocmForgeError('RATE_LIMITED', message, { limit: 'cancelled_calls', retry_delay_ms: String(retryMs) });
  }

  private levelOf(bucket: TokenBucket): number {
    return bucket.level(CANCELS.burst, CANCELS.perSecond, this.nowMs());
  }

  private bucketOf(client: string): TokenBucket {
    const bucket = this.cancels.get(client) ?? new TokenBucket(CANCELS.burst, this.nowMs());
    this.cancels.delete(client);
    this.cancels.set(client, bucket);
    if (this.cancels.size > MOST_CLIENTS) this.forgetOne();
    return bucket;
  }

  /** The oldest whose calls are taken, so that nobody is let off by others' coming; else the oldest. */
  private forgetOne(): void {
    const [oldest] = this.cancels.keys();
    for (const client of this.cancels.keys()) {
      if (this.refusalOf(client) !== undefined) continue;
      this.cancels.delete(client);
      return;
    }
    if (oldest !== undefined) this.cancels.delete(oldest);
  }
}
