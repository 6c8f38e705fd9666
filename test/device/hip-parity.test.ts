import { beforeAll, describe } from 'vitest';
import type { ParityCase } from '../../src/cli/verify/teacher-forced.js';
import { describeParity } from '../executor/support/parity.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { isFull } from '../support/run-size.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

// The device simulates every thread: every step of every case takes five minutes.
const TOKENS = isFull ? Number.POSITIVE_INFINITY : 8;
/** Each prompt, and the first tokens after it; of two long ones the shorter. */
function part(cases: readonly ParityCase[]): readonly ParityCase[] {
  const isLong = cases.length < 3 && TOKENS < Number.POSITIVE_INFINITY;
  const some = isLong ? [...cases].sort((a, b) => a.prompt_tokens.length - b.prompt_tokens.length).slice(0, 1) : cases;
  return some.map((one) => ({ ...one, tokens: one.tokens.slice(0, TOKENS), top: one.top.slice(0, TOKENS) }));
}

describe.skipIf(missing !== undefined)('the executor on a HIP device', () => {
  const double = new HipDouble();
  beforeAll(() => double.install());

  describeParity({ kind: 'hip' }, { timeout: 1_200_000, part });
});
