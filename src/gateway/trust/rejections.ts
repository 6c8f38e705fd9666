import { cut } from '../../lib/support/quoted.js';
import { BoundedLog } from '../../shared/bounded-log.js';
import type { RocmForgeError } from '../../shared/errors.js';
import type { Logger } from '../../shared/log.js';
import type { TrustObserver } from './trust.js';

const MOST_CHARACTERS = 128;

/** Logs and counts rejected requests: why, for which field or limit, and whose; never their text, so not the message either. */
export class Rejections {
  private readonly lines: BoundedLog;

  constructor(
    log: Pick<Logger, 'info'>,
    private readonly observer: Pick<TrustObserver, 'requestRejected'>,
    nowMs?: () => number,
  ) {
    this.lines = new BoundedLog((fields, message) => log.info(fields, message), nowMs);
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
    const { field, limit, prompt_tokens: promptTokens, context_length: contextLength } = metadata;
    this.lines.note(
      () => ({
        ...{ api, reason, client: cut(client, MOST_CHARACTERS) },
        ...(requestId && { requestId: named(requestId) }),
        ...(httpRequestId !== undefined && { httpRequestId }),
        ...(field !== undefined && { field: named(field) }),
        ...(limit !== undefined && { limit }),
        ...(promptTokens !== undefined && { promptTokens: Number(promptTokens), contextLength: Number(contextLength) }),
      }),
      'request rejected',
    );
  }
}

/** Ids and names of unknown fields are the client's words: short, and of a name's characters. */
const named = (text: string): string => cut(text.replace(/[^\w.[\]/:-]/g, '_'), MOST_CHARACTERS);
