import { beforeAll, describe, expect, it } from 'vitest';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import type { Device } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

/** More than a device has in flight: one that never counts as over would keep the next from beginning. */
const FAILURES = 12;

describe.skipIf(missing !== undefined)('steps that fail without taking the device along', () => {
  const double = new HipDouble({ fault: 'error=1@event:1+' });
  let device: Device;
  let model: LoadedModel;
  let generation = 0n;

  beforeAll(async () => {
    double.install();
    device = openDevice({ kind: 'hip' });
    const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0 };
    const path = writeRandomModel({ type: 'F16' });
    model = await loadModel(device, { path, kvCacheType: 'f16', fingerprint: '', ...limits }, () => undefined);
  });

  const run = async (): Promise<number[]> => {
    const driver = new StepDriver(device, model, ++generation);
    const tokens = promptOf(1, 20, 256);
    return [...(await driver.sample([[0, 0, 20, true]], [[0, tokens]])), ...(await driver.sample([[0, 20, 1, true]]))];
  };

  it('are over: those behind them begin, and compute what they compute without', async () => {
    const undisturbed = await run();
    double.plant();
    for (let failure = 0; failure < FAILURES; failure++) await expect(run()).rejects.toThrow('failed in a step');
    double.mend();
    expect(await run()).toEqual(undisturbed);
  });

  it('also when several are under way at once', async () => {
    const undisturbed = await run();
    const prompt = promptOf(1, 20, 256);
    double.plant();
    const driver = new StepDriver(device, model, ++generation);
    const steps = [
      driver.sample([[0, 0, 20, true]], [[0, prompt]]),
      driver.sample([[0, 20, 1, true]]),
      driver.sample([[0, 21, 1, true]]),
    ];
    expect((await Promise.allSettled(steps)).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    double.mend();
    expect(await run()).toEqual(undisturbed);
  });
});
