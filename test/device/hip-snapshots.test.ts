import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import { ExecuteRequest, type Slice, SlotOpen } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomFamily } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
const PROMPT = Array.from({ length: 20 }, (_, i) => 3 + ((i * 37) % 200));

// Cases of test/executor/recurrent-states.test.ts on the host, in few steps: this device simulates every thread.
describe.skipIf(missing !== undefined)('on a HIP device', () => {
  it('a sequence goes on behind a snapshot with the bits of a plain run, steps that graphs replay among it', async () => {
    new HipDouble().install();
    const device = openDevice({ kind: 'hip' });
    const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 16, kvMemoryBytes: 0, stateSnapshots: 2 };
    const path = writeRandomFamily('qwen35', { type: 'F16', layers: 4 });
    const model = await loadModel(device, { path, kvCacheType: 'f16', fingerprint: '', ...limits }, () => undefined);
    const runner = new StepRunner(device, model, 1n);
    let stepId = 0n;
    const step = async (slices: readonly Partial<Slice>[], opens: SlotOpen[] = []) => {
      stepId += 1n;
      const whole = slices.map((slice) => ({
        slot: 0,
        position: 0,
        count: 1,
        sample: true,
        promptLogprobs: false,
        ...slice,
      }));
      const frame = { ...ExecuteRequest.create(), epoch: 1n, stepId, opens, slices: whole };
      return (await runner.submit(frame)).outputs.map(({ tokenId, logprob }) => [tokenId, logprob]);
    };
    const opening = (slot: number): SlotOpen => ({
      ...{ ...SlotOpen.create(), slot, tokenIds: words(...PROMPT), promptTokens: PROMPT.length },
      ...{ blockIds: words(1, 2 + slot, 4 + slot), sampling: encodeSampling({ ...NEUTRAL_SAMPLING, logprobs: 1 }) },
    });
    try {
      await step([{ count: 16, sample: false, toSnapshot: 1 }], [opening(0)]);
      const plain = await step([{ position: 16, count: 4 }]);
      const found = await step([{ slot: 1, position: 16, count: 4, fromSnapshot: 1 }], [opening(1)]);
      for (let position = 20; position < 24; position++) {
        const [own, other] = await step([
          { position },
          // A graph holds the step: where its states lie is in its tables alone.
          { slot: 1, position, ...(position === 21 && { toSnapshot: 2 }) },
        ]);
        plain.push(own!);
        found.push(other!);
      }
      expect(found).toEqual(plain);
      expect(plain.every(([, logprob]) => logprob! < 0)).toBe(true);
      await expect(
        step([
          { position: 24, toSnapshot: 1 },
          { slot: 1, position: 24, fromSnapshot: 1 },
        ]),
      ).rejects.toThrow(/snapshot 1, which belongs to 25/);
    } finally {
      model.release();
    }
  });
});
