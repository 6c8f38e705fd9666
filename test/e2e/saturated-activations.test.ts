import { expect, it } from 'vitest';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import { startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

it('what kernels count of activations beyond f16’s range comes with the next step that samples, once', async () => {
  const device = openDevice({ kind: 'host' });
  const limits = { maxContext: 64, maxSequences: 1, maxStepTokens: 32, kvMemoryBytes: 0 };
  const options = { path: writeRandomModel(), kvCacheType: 'f32', fingerprint: '', ...limits } as const;
  const model = await loadModel(device, options, () => undefined);
  const told: number[] = [];
  const submit = StepRunner.prototype.submit;
  StepRunner.prototype.submit = async function (step) {
    const response = await submit.call(this, step);
    told.push(response.saturatedActivations);
    return response;
  };
  try {
    const driver = new StepDriver(device, model, 1n);
    const countedSoFar = (count: number) =>
      device.native.write(model.forward.tables.saturated.address, new Uint8Array(Uint32Array.of(count).buffer));
    const tokens = Uint32Array.from({ length: 12 }, (_, i) => 260 + i);
    await driver.sample([[0, 0, 4, true]], [[0, tokens]]);
    countedSoFar(7);
    await driver.sample([[0, 4, 4, false]]);
    await driver.sample([[0, 8, 1, true]]);
    await driver.sample([[0, 9, 1, true]]);
    // The device counts modulo 2^32.
    countedSoFar(2 ** 32 - 1);
    await driver.sample([[0, 10, 1, true]]);
    countedSoFar(4);
    await driver.sample([[0, 11, 1, true]]);
    expect(told).toEqual([0, 0, 7, 0, 2 ** 32 - 8, 5]);
  } finally {
    StepRunner.prototype.submit = submit;
  }
});

it('is counted by the gateway', async () => {
  const server = await startFakeGateway();
  try {
    server.executor.rewrite = (response) => [{ ...response, saturatedActivations: 3 }];
    await generate(server.client, request({ text: 'the sea', stop: { maxTokens: 5, ignoreEos: true } }));
    const { saturatedActivations } = server.gateway.replica.counts;
    expect(saturatedActivations % 3).toBe(0);
    expect(saturatedActivations).toBeGreaterThanOrEqual(5 * 3);
    expect(await server.gateway.metrics.registry.metrics()).toContain(
      `rocmforge_saturated_activations_total ${saturatedActivations}`,
    );
  } finally {
    await server.stop();
  }
});
