import { expect, it } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';
import { selfTest } from '../../src/executor/load/self-test.js';

it('the self-test of kernels delays a start by less than 100 ms', async () => {
  const device = openDevice({ kind: 'host' });
  await selfTest(device);
  const began = performance.now();
  await selfTest(device);
  const ms = performance.now() - began;
  console.log(`self-test on the host: ${ms.toFixed(1)} ms`);
  expect(ms).toBeLessThan(100);
});
