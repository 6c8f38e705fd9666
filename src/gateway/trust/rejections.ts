import type { RocmForgeError } from '../../shared/errors.js';
import type { Logger } from '../../shared/log.js';
import { cut } from '../../shared/quoted.js';
import { TokenBucket } from '../../shared/token-bucket.js';
import type { TrustObserver } from './trust.js';

/** Lines at once, and a second: whoever is rejected without end must not fill the log. */
const LINES = { burst: 20, perSecond: 1 };
const MOST_CHARACTERS = 128;

/** Logs and counts rejected requests: why, for which field, and whose; never what they say. */
export class Rejections {
  private readonly lines: TokenBucket;
  private suppressed = 0;

  constructor(
    private readonly log: Pick<Logger, 'info'>,
    private readonly observer: Pick<TrustObserver, 'requestRejected'>,
    private readonly nowMs: () => number = () => performance.now(),
  ) {
    this.lines = new TokenBucket(LINES.burst, nowMs());
  }

  /**
   * @param client its principal, or its address where it was not identified
   * @param ids `request_id` of a gRPC request that has one, `x-request-id` of an HTTP response
   */
  note(
    api: 'grpc' | 'http',
    client: string,
    { reason, metadata }: Pick<RocmForgeError, 'reason' | 'metadata'>,
    { requestId, httpRequestId }: { readonly requestId?: string | undefined; readonly httpRequestId?: string } = {},
  ): void {
    this.observer.requestRejected(api, reason);
    if (this.lines.level(LINES.burst, LINES.perSecond, this.nowMs()) < 1) {
      this.suppressed += 1;
      return;
    }
    this.lines.take(1);
    const { field } = metadata;
    const { suppressed } = this;
    this.suppressed = 0;
    this.log.info(
      {
        ...{ api, reason, client: cut(client, MOST_CHARACTERS) },
        ...(requestId && { requestId: named(requestId) }),
        ...(httpRequestId !== undefined && { httpRequestId }),
        ...(field !== undefined && { field: named(field) }),
        ...(suppressed > 0 && { suppressed }),
      },
      'request rejected',
    );
  }
}

/** Ids and names of unknown fields are the client's words: short, and of a name's characters. */
const named = (text: string): string => cut(text.replace(/[^\w.[\]/:-]/g, '_'), MOST_CHARACTERS);
