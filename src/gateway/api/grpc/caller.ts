import type { Metadata } from '@grpc/grpc-js';
import type { CallContext } from '../../request/encoding/text-threads.js';
import { parseTraceparent } from '../../request/trace.js';
import { callController } from '../call-signal.js';
import type { WaitingCall } from '../inference.js';
import { peerOf } from '../peer.js';
import { peerTold, principalOf } from './trust-interceptor.js';

/** Properties of a call that identify its caller. */
export interface IncomingCall {
  readonly cancelled: boolean;
  readonly metadata: Metadata;
  getPeer(): string;
  getDeadline(): Date | number;
  once(event: 'cancelled', listener: () => void): unknown;
}

/** Given where nobody asks for it: without one each call's end would cost an exception with its stack. */
const DISCONNECTED = 'the client disconnected';

/** Aborted when the call is cancelled: by its client, at its deadline, or with its connection. */
export function abortWith(call: IncomingCall): AbortController {
  const disconnected = callController();
  if (call.cancelled) disconnected.abort(DISCONNECTED);
  else call.once('cancelled', () => disconnected.abort(DISCONNECTED));
  return disconnected;
}

/** {@link callerOf}, who can be told that nobody waits any more. */
export function clientOf(call: IncomingCall): WaitingCall {
  const disconnected = abortWith(call);
  return { ...callerOf(call, disconnected), cancel: () => disconnected.abort(DISCONNECTED) };
}

/** Caller of a call, its deadline, and whether the response is still wanted. */
export function callerOf(call: IncomingCall, { signal } = abortWith(call)): CallContext {
  const traceparents = call.metadata.get('traceparent');
  return {
    principal: principalOf(call.metadata),
    peer: peerTold(call.metadata) ?? peerOf(call),
    trace: traceparents.length === 1 ? parseTraceparent(String(traceparents[0])) : undefined,
    deadline: performance.now() + (Number(call.getDeadline()) - Date.now()),
    signal,
  };
}
