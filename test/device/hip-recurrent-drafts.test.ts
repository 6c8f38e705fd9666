import { beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import { ExecuteRequest, type Slice, SlotOpen } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomFamily } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const PROMPT = [3, 1, 4, 1, 5];
const TOKENS = 10;
const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);

// Cases of test/executor/recurrent-states.test.ts and prediction.test.ts, in few steps: this device simulates every thread.
describe.skipIf(missing !== undefined)('on a HIP device', () => {
  const double = new HipDouble();
  let device: Device;
  let model: LoadedModel;
  let epoch = 0n;
  beforeAll(async () => {
    double.install();
    device = openDevice({ kind: 'hip' });
    const limits = { maxContext: 64, maxSequences: 4, maxStepTokens: 16, kvMemoryBytes: 0 };
    const path = writeRandomFamily('qwen35', { type: 'F16', predicts: true });
    const drafts = { draftTokens: 3, predicts: true };
    model = await loadModel(
      device,
      { path, kvCacheType: 'f16', fingerprint: '', ...drafts, ...limits },
      () => undefined,
    );
  });

  /** One slot in steps of a caller's. */
  function drive() {
    epoch += 1n;
    const runner = new StepRunner(device, model, epoch);
    const own = epoch;
    let stepId = 0n;
    const open = {
      ...{ ...SlotOpen.create(), slot: 0, tokenIds: words(...PROMPT), promptTokens: PROMPT.length },
      ...{ blockIds: words(1, 2), sampling: encodeSampling({ ...NEUTRAL_SAMPLING, logprobs: 1 }) },
    };
    return async (slice: Partial<Slice>) => {
      stepId += 1n;
      const whole = { slot: 0, position: 0, count: 1, sample: true, promptLogprobs: false, ...slice };
      const opens = stepId === 1n ? [open] : [];
      return (await runner.submit({ ...ExecuteRequest.create(), epoch: own, stepId, opens, slices: [whole] })).outputs;
    };
  }

  it('a recurrent model has the same bits with draft tokens, however many of them are right', async () => {
    const plain = drive();
    const expected = [...(await plain({ count: PROMPT.length }))];
    while (expected.length < TOKENS + 4)
      expected.push(...(await plain({ position: PROMPT.length - 1 + expected.length })));
    const step = drive();
    const found = [...(await step({ count: PROMPT.length }))];
    for (let round = 0; found.length < TOKENS; round++) {
      const right = [2, 0, 3, 1][round % 4]!;
      const drafts = expected.slice(found.length, found.length + 3).map(({ tokenId }, i) => {
        return i < right ? tokenId : (tokenId + 1) % 300;
      });
      const tokenIds = words(found.at(-1)!.tokenId, ...drafts);
      const outputs = await step({ position: PROMPT.length - 1 + found.length, count: 1 + drafts.length, tokenIds });
      found.push(...outputs.slice(0, 1 + right));
    }
    const seen = (outputs: typeof found) => outputs.map(({ tokenId, logprob }) => [tokenId, logprob]);
    expect(seen(found)).toEqual(seen(expected.slice(0, found.length)));
  });

  it('the prediction block changes no token, and predicts as many as are wanted', async () => {
    const plain = drive();
    const expected = [...(await plain({ count: PROMPT.length }))];
    for (let i = 0; i < 3; i++) expected.push(...(await plain({ position: PROMPT.length + i })));
    const predict = async (step: ReturnType<typeof drive>) => {
      const outputs = [...(await step({ count: PROMPT.length, predictedTokens: 3 }))];
      for (let i = 0; i < 3; i++) outputs.push(...(await step({ position: PROMPT.length + i, predictedTokens: 3 })));
      return outputs;
    };
    const found = await predict(drive());
    expect(found.map(({ tokenId, logprob }) => [tokenId, logprob])).toEqual(
      expected.map(({ tokenId, logprob }) => [tokenId, logprob]),
    );
    for (const { predictedIds } of found) expect(predictedIds).toHaveLength(3);
  });
});
