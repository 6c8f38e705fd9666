/** A place in a distributed trace, as W3C's Trace Context names it. */
export interface Trace {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** The caller's span: 16 hexadecimal digits. */
  readonly parentId: string;
  /** 1: the caller records it. */
  readonly flags: number;
}

const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
const INVALID_VERSION = 'ff';

/**
 * Reads the value of a `traceparent` header (https://www.w3.org/TR/trace-context/#traceparent-header). What is not valid is
 * as good as absent: a trace is no reason to refuse a request.
 */
export function parseTraceparent(value: string): Trace | undefined {
  const [, version, traceId, parentId, flags = '', more] = TRACEPARENT.exec(value) ?? [];
  if (version === undefined || traceId === undefined || parentId === undefined) return undefined;
  // Version 0 ends here; later ones may go on.
  if (version === INVALID_VERSION || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined;
  return { traceId, parentId, flags: Number.parseInt(flags, 16) & 1 };
}
