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
  /** `x-request-id` of the HTTP request, the client's or a generated one; its response has it, too. */
  readonly httpRequestId?: string | undefined;
}

/** Context that accompanies a request. */
export interface RequestContext extends Caller {
  readonly id: string;
  /** When it arrived, on the clock of `performance.now()`: what it waits for before it is queued counts as its latency. */
  readonly arrivedAt: number;
  /** Recorder of traces. */
  readonly spans?: RequestSpans | undefined;
}

/** Outcome of a request whose caller does not wait any more. */
export const leftAs = ({ deadline }: Pick<Caller, 'deadline'>): 'DEADLINE_EXCEEDED' | 'cancelled' =>
  deadline - performance.now() < 1 ? 'DEADLINE_EXCEEDED' : 'cancelled';

/** Name of a request in logs. */
export function logFields(context: RequestContext): Readonly<Record<string, string>> {
  const { id, httpRequestId, principal, peer, trace } = context;
  return {
    requestId: id,
    ...(httpRequestId !== undefined && { httpRequestId }),
    ...{ principal, peer },
    ...(trace && { traceId: trace.traceId, parentId: trace.parentId }),
  };
}
