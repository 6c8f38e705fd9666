import type { RequestSpans } from './spans.js';
import type { Trace } from './trace.js';

/** Who asks, known before the request itself is read. Made by the server. */
export interface Caller {
  /** Whom it counts for: what many send is shared out among principals. The peer, where no credential is demanded. */
  readonly principal: string;
  /** Where it comes from. */
  readonly peer: string;
  /** The trace that the call is part of, where its client said so. */
  readonly trace: Trace | undefined;
  /** Until when the caller waits, on the clock of `performance.now()`; infinite where it did not say. */
  readonly deadline: number;
}

/** What goes with a request wherever it goes. */
export interface RequestContext extends Caller {
  readonly id: string;
  /** Where traces are recorded. */
  readonly spans?: RequestSpans | undefined;
}

/** How a request is named in logs. */
export function logFields({ id, principal, peer, trace }: RequestContext): Readonly<Record<string, string>> {
  return { requestId: id, principal, peer, ...(trace && { traceId: trace.traceId, parentId: trace.parentId }) };
}
