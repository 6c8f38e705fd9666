import type { RequestSpans } from './spans.js';
import type { Trace } from './trace.js';

/** Caller of a request, known before the request itself is read. Made by the server. */
export interface Caller {
  /** Whom it counts for: what many send is shared out among principals. The peer, where no credential is demanded. */
  readonly principal: string;
  /** Its origin. */
  readonly peer: string;
  /** The trace that the call is part of, where its client said so. */
  readonly trace: Trace | undefined;
  /** Until when the caller waits, on the clock of `performance.now()`; infinite where it did not say. */
  readonly deadline: number;
}

/** Context that accompanies a request. */
export interface RequestContext extends Caller {
  readonly id: string;
  /** Recorder of traces. */
  readonly spans?: RequestSpans | undefined;
}

/** Name of a request in logs. */
export function logFields({ id, principal, peer, trace }: RequestContext): Readonly<Record<string, string>> {
  return { requestId: id, principal, peer, ...(trace && { traceId: trace.traceId, parentId: trace.parentId }) };
}
