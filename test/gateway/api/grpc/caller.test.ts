import { Metadata } from '@grpc/grpc-js';
import { expect, it, vi } from 'vitest';
import { abortWith, callerOf } from '../../../../src/gateway/api/grpc/caller.js';
import { setPrincipal } from '../../../../src/gateway/api/grpc/trust-interceptor.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

function call({
  traceparents = [] as string[],
  deadline = Number.POSITIVE_INFINITY as Date | number,
  cancelled = false,
}) {
  const metadata = new Metadata();
  setPrincipal(metadata, 'token:alice');
  for (const value of traceparents) metadata.add('traceparent', value);
  const listeners: (() => void)[] = [];
  return {
    cancelled,
    metadata,
    getPeer: () => '10.0.0.1:50312',
    getDeadline: () => deadline,
    once: (_event: 'cancelled', listener: () => void) => listeners.push(listener),
    cancel: () => {
      for (const listener of listeners) listener();
    },
  };
}

it('a caller counts for whom it was identified as, and comes from its peer', () => {
  expect(callerOf(call({}))).toMatchObject({ principal: 'token:alice', peer: '10.0.0.1' });
});

it('a call that nobody has identified is nobody’s', () => {
  expect(() => callerOf({ ...call({}), metadata: new Metadata() })).toThrow('without being identified');
});

it('a caller without a deadline waits for ever', () => {
  expect(callerOf(call({})).deadline).toBe(Number.POSITIVE_INFINITY);
});

it('a deadline is brought to the clock that nobody sets', () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  try {
    const { deadline } = callerOf(call({ deadline: new Date(Date.now() + 60_000) }));
    expect(deadline - performance.now()).toBe(60_000);
  } finally {
    vi.useRealTimers();
  }
});

it('the trace of a call is the one that its client sent', () => {
  expect(callerOf(call({ traceparents: [`00-${TRACE}-${SPAN}-01`] })).trace).toEqual({
    traceId: TRACE,
    parentId: SPAN,
    flags: 1,
  });
});

it.each([
  ['none', []],
  ['one that is not valid', ['00-0-0-00']],
  ['two', [`00-${TRACE}-${SPAN}-01`, `00-${TRACE}-${SPAN}-01`]],
])('a call with %s has no trace', (_what, traceparents) => {
  expect(callerOf(call({ traceparents })).trace).toBeUndefined();
});

it('the answer is not wanted any more once the call is cancelled', () => {
  const open = call({});
  const { signal } = callerOf(open);
  expect(signal.aborted).toBe(false);
  open.cancel();
  expect(signal.aborted).toBe(true);
  expect(abortWith(call({ cancelled: true })).signal.aborted).toBe(true);
});
