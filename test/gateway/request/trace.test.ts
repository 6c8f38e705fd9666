import { expect, it } from 'vitest';
import { parseTraceparent } from '../../../src/gateway/request/trace.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

it('reads the trace and the span of a traceparent header', () => {
  expect(parseTraceparent(`00-${TRACE}-${SPAN}-01`)).toEqual({ traceId: TRACE, parentId: SPAN, flags: 1 });
});

it('reads what later versions begin with', () => {
  expect(parseTraceparent(`01-${TRACE}-${SPAN}-03`)).toEqual({ traceId: TRACE, parentId: SPAN, flags: 1 });
  expect(parseTraceparent(`cc-${TRACE}-${SPAN}-01-what comes then`)?.traceId).toBe(TRACE);
});

it.each([
  ['nothing', ''],
  ['a version that is none', `ff-${TRACE}-${SPAN}-01`],
  ['more than version 0 has', `00-${TRACE}-${SPAN}-01-more`],
  ['a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
  ['a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['capitals', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
  ['too few digits', `00-${TRACE.slice(1)}-${SPAN}-01`],
  ['what is no hexadecimal digit', `00-${TRACE}-${SPAN}-0g`],
  ['something before it', ` 00-${TRACE}-${SPAN}-01`],
  ['something after it', `00-${TRACE}-${SPAN}-01\n`],
])('takes %s for no trace', (_what, value) => {
  expect(parseTraceparent(value)).toBeUndefined();
});
