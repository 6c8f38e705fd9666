import { beforeAll, describe } from 'vitest';
import { describeParity } from '../executor/support/parity.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

describe.skipIf(missing !== undefined)('the executor on a HIP device', () => {
  const double = new HipDouble();
  beforeAll(() => double.install());

  describeParity({ kind: 'hip' }, 1_200_000);
});
