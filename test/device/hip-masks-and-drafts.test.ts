import { beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import { ExecuteRequest, type Slice, SlotOpen } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING, type SamplingValues } from '../../src/shared/sampling-schema.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const PROMPT = [3, 1, 4, 1, 5];
const TOKENS = 8;
const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);

// Cases of test/executor/masked-steps.test.ts and test/e2e/speculation.test.ts on the host, in few steps: this device
// simulates every thread.
describe.skipIf(missing !== undefined)('on a HIP device', () => {
  const double = new HipDouble();
  let device: Device;
  let model: LoadedModel;
  let epoch = 0n;
  beforeAll(async () => {
    double.install();
    device = openDevice({ kind: 'hip' });
    const limits = { maxContext: 64, maxSequences: 4, maxStepTokens: 16, kvMemoryBytes: 0 };
    const path = writeRandomModel({ type: 'F16' });
    model = await loadModel(device, { path, kvCacheType: 'f16', fingerprint: '', ...limits }, () => undefined);
  });

  /** One slot in steps of a caller's. */
  function drive(
    constrained: 0 | 1,
    penalties: Partial<SamplingValues> = constrained ? { frequencyPenalty: 0.5 } : {},
  ) {
    epoch += 1n;
    const runner = new StepRunner(device, model, epoch);
    const own = epoch;
    let stepId = 0n;
    const sampling = { ...NEUTRAL_SAMPLING, temperature: 1, seed: 5n, topK: 30, constrained };
    const open = {
      ...{ ...SlotOpen.create(), slot: 0, tokenIds: words(...PROMPT), promptTokens: PROMPT.length },
      ...{ blockIds: words(1, 2), sampling: encodeSampling({ ...sampling, ...penalties }) },
    };
    return {
      runner,
      frame: (parts: Partial<ExecuteRequest>) => ({ ...ExecuteRequest.create(), epoch: own, stepId, ...parts }),
      async step(slice: Partial<Slice>, parts: Partial<ExecuteRequest> = {}) {
        stepId += 1n;
        const whole = { slot: 0, position: 0, count: 1, sample: true, promptLogprobs: false, ...slice };
        const opens = stepId === 1n ? [open] : [];
        const request = { ...ExecuteRequest.create(), epoch: own, stepId, opens, slices: [whole], ...parts };
        return (await runner.submit(request)).outputs;
      },
    };
  }
  const allows = (previous: number, token: number): boolean => (7 * token + previous) % 3 === 0;
  const maskAfter = (id: number, previous: number) => {
    const { vocabularySize } = model.forward.model;
    const allowed = Buffer.alloc(4 * Math.ceil(vocabularySize / 32));
    for (let i = 0; i < vocabularySize; i++) if (allows(previous, i)) allowed[i >> 3]! |= 1 << (i & 7);
    return { id, allowed };
  };
  const sliceAt = (tokens: readonly number[]): Partial<Slice> =>
    tokens.length === 0 ? { count: PROMPT.length } : { position: PROMPT.length + tokens.length - 1 };

  it('masks that come with the step, behind it and too late leave the same tokens', async () => {
    const known = drive(1);
    const expected: number[] = [];
    while (expected.length < TOKENS) {
      const mask = maskAfter(1, expected.at(-1) ?? 5);
      const [output] = await known.step({ ...sliceAt(expected), mask: { id: 1 } }, { masks: [mask] });
      expect(allows(expected.at(-1) ?? 5, output!.tokenId)).toBe(true);
      expected.push(output!.tokenId);
    }
    const pending = drive(1);
    const tokens: number[] = [];
    while (tokens.length < TOKENS) {
      if (tokens.length === 3) {
        const [late] = await pending.step({ ...sliceAt(tokens), mask: { id: 0 } });
        expect(late?.late).toBe(true);
      }
      const running = pending.step({ ...sliceAt(tokens), mask: { id: 0 } });
      const id = 1 + tokens.length;
      const frame = { masks: [maskAfter(id, tokens.at(-1) ?? 5)], slotMasks: [{ slot: 0, mask: id }] };
      pending.runner.takeMasks(pending.frame(frame));
      tokens.push((await running)[0]!.tokenId);
    }
    expect(tokens).toEqual(expected);
  });

  it.each<[string, 0 | 1, Partial<SamplingValues>]>([
    ['free', 0, {}],
    ['penalized', 0, { frequencyPenalty: 0.5, presencePenalty: 0.3, repetitionPenalty: 1.2 }],
    ['constrained and penalized', 1, { frequencyPenalty: 0.5 }],
  ])('draftTokens, right and wrong, leave the same tokens, %s', async (_what, constrained, penalties) => {
    /** Masks by which the tokens behind these are sampled. */
    const masked = (previous: readonly number[], isDraft: boolean): [Partial<Slice>, Partial<ExecuteRequest>] => {
      if (!constrained) return [{}, {}];
      const ids = previous.map((_, i) => 1 + i);
      const named = isDraft ? { draftTokenMasks: words(...ids) } : { mask: { id: 1 } };
      return [named, { masks: previous.map((token, i) => maskAfter(1 + i, token)) }];
    };
    const plain = drive(constrained, penalties);
    const expected: number[] = [];
    while (expected.length < TOKENS) {
      const [mask, masks] = masked([expected.at(-1) ?? 5], false);
      expected.push((await plain.step({ ...sliceAt(expected), ...mask }, masks))[0]!.tokenId);
    }
    const drafting = drive(constrained, penalties);
    const [mask, masks] = masked([5], false);
    const tokens = [(await drafting.step({ ...sliceAt([]), ...mask }, masks))[0]!.tokenId];
    while (tokens.length < TOKENS) {
      const right = expected.slice(tokens.length, tokens.length + 2);
      const draftTokens = tokens.length === 3 ? [right[0]!, 299] : right;
      const ids = [tokens.at(-1)!, ...draftTokens];
      const [each, brought] = masked(ids, ids.length > 1);
      const draft = { ...sliceAt(tokens), count: ids.length, tokenIds: words(...ids), ...each };
      const outputs = await drafting.step(draft, brought);
      const sampled = outputs.map(({ tokenId }) => tokenId);
      let accepted = 1;
      while (accepted < sampled.length && draftTokens[accepted - 1] === sampled[accepted - 1]) accepted += 1;
      tokens.push(...sampled.slice(0, accepted));
    }
    expect(tokens.slice(0, TOKENS)).toEqual(expected);
  });
});
