import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import {
  ExecuteRequest,
  type ExecuteResponse,
  type Slice,
  SlotOpen,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { writeRandomFamily } from '../support/random-model.js';

const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
const PROMPT = Array.from({ length: 21 }, (_, i) => 3 + ((i * 37) % 200));
const device = openDevice({ kind: 'host' });
let epoch = 0n;

/** Slots of a model, driven as a gateway would. */
class Driver {
  readonly runner: StepRunner;
  private readonly epoch = ++epoch;
  private stepId = 0n;

  constructor(model: LoadedModel) {
    this.runner = new StepRunner(device, model, this.epoch);
  }

  open(slot: number): SlotOpen {
    const blockIds = words(...Array.from({ length: 4 }, (_, i) => 1 + 4 * slot + i));
    const sampling = encodeSampling(NEUTRAL_SAMPLING);
    return { ...SlotOpen.create(), slot, tokenIds: words(...PROMPT), promptTokens: PROMPT.length, blockIds, sampling };
  }

  step(slices: readonly Partial<Slice>[], opens: readonly SlotOpen[] = []): Promise<ExecuteResponse> {
    this.stepId += 1n;
    const all = slices.map(
      (parts): Slice => ({
        ...{ slot: 0, position: 0, count: 1, sample: true, promptLogprobs: false },
        ...parts,
      }),
    );
    const own = { stepId: this.stepId, epoch: this.epoch, slices: all, opens: [...opens] };
    return this.runner.submit({ ...ExecuteRequest.create(), ...own });
  }
}

// Weights with which a token alone decides what follows, nearly: the block, which is given the next token, then predicts it.
const scaled = {
  attn_output: 0.02,
  ffn_down: 0.02,
  ssm_out: 0.02,
  ffn_down_exps: 0.02,
  ffn_down_shexp: 0.02,
  output: 10,
};

describe.each(['qwen35', 'qwen35moe', 'glm4moe'] as const)('the prediction block of %s', (family) => {
  let model: LoadedModel;
  beforeAll(async () => {
    const limits = { maxContext: 64, maxSequences: 4, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
    const path = writeRandomFamily(family, { predicts: true, scaled });
    model = await loadModel(device, { path, kvCacheType: 'f16', draftTokens: 3, predicts: true, ...limits }, () => {});
  });
  afterAll(() => model.release());

  it('predicts tokens behind the one that is sampled, most of which are then sampled', async () => {
    const driver = new Driver(model);
    const first = await driver.step([{ count: PROMPT.length, predictedTokens: 3 }], [driver.open(0)]);
    const tokens = [first.outputs[0]!.tokenId];
    let predicted = first.outputs[0]!.predictedIds;
    let [right, all] = [0, 0];
    while (tokens.length < 30) {
      const position = PROMPT.length + tokens.length - 1;
      const { outputs } = await driver.step([{ position, predictedTokens: 3 }]);
      const token = outputs[0]!.tokenId;
      all += 1;
      right += Number(predicted[0] === token);
      tokens.push(token);
      predicted = outputs[0]!.predictedIds;
      expect(predicted.length).toBeLessThanOrEqual(3);
    }
    console.log(`${family}: ${right} of ${all} predicted tokens were right`);
    expect(right / all).toBeGreaterThan(0.6);
  });

  it('samples the same tokens with its predictions as draft tokens, and without', async () => {
    const plain = new Driver(model);
    const begun = await plain.step([{ count: PROMPT.length }], [plain.open(0)]);
    expect(begun.outputs[0]!.predictedIds).toEqual([]);
    const expected = [begun.outputs[0]!.tokenId];
    while (expected.length < 36) {
      const { outputs } = await plain.step([{ position: PROMPT.length + expected.length - 1 }]);
      expected.push(outputs[0]!.tokenId);
    }
    const driver = new Driver(model);
    const last = (await driver.step([{ count: PROMPT.length, predictedTokens: 3 }], [driver.open(0)])).outputs[0]!;
    const tokens = [last.tokenId];
    let drafts = last.predictedIds;
    let steps = 0;
    while (tokens.length < 30) {
      const tokenIds = words(tokens.at(-1)!, ...drafts);
      const position = PROMPT.length + tokens.length - 1;
      const { outputs } = await driver.step([{ position, count: 1 + drafts.length, tokenIds, predictedTokens: 3 }]);
      let accepted = 1;
      while (accepted < outputs.length && drafts[accepted - 1] === outputs[accepted - 1]!.tokenId) accepted += 1;
      tokens.push(...outputs.slice(0, accepted).map(({ tokenId }) => tokenId));
      // They come behind the last accepted token, and nowhere else.
      for (const [i, { predictedIds }] of outputs.entries()) if (i !== accepted - 1) expect(predictedIds).toEqual([]);
      drafts = outputs[accepted - 1]!.predictedIds;
      steps += 1;
    }
    expect(tokens).toEqual(expected.slice(0, tokens.length));
    expect(steps).toBeLessThan(20);
  });

  it('predicts the same for a prompt in chunks, and among others', async () => {
    const alone = new Driver(model);
    const whole = await alone.step([{ count: PROMPT.length, predictedTokens: 3 }], [alone.open(0)]);
    const driver = new Driver(model);
    await driver.step([{ count: 7, sample: false, predictedTokens: 0 }], [driver.open(0)]);
    await driver.step(
      [
        { position: 7, count: 9, sample: false, predictedTokens: 0 },
        { slot: 1, count: 5, sample: false, predictedTokens: 0 },
      ],
      [driver.open(1)],
    );
    const rest = [
      { position: 16, count: PROMPT.length - 16, predictedTokens: 3 },
      { slot: 1, position: 5, count: PROMPT.length - 5, predictedTokens: 3 },
    ];
    const { outputs } = await driver.step(rest);
    const { tokenId, predictedIds } = whole.outputs[0]!;
    expect(predictedIds).toHaveLength(3);
    for (const output of outputs) expect(output).toMatchObject({ tokenId, predictedIds });
  });

  it('takes no time of a step in which no slice is predicted', async () => {
    const driver = new Driver(model);
    const { predictUs } = await driver.step([{ count: PROMPT.length, predictedTokens: 1 }], [driver.open(0)]);
    expect(predictUs).toBeGreaterThan(0);
    const plain = await driver.step([{ position: PROMPT.length }]);
    expect([plain.predictUs, plain.outputs[0]?.predictedIds]).toEqual([0, []]);
  });

  it('predicts no token whose position is in no block of the slot', async () => {
    const driver = new Driver(model);
    const opened = { ...driver.open(0), blockIds: words(1, 2) };
    const { outputs } = await driver.step([{ count: PROMPT.length, predictedTokens: 40 }], [opened]);
    // Positions 21 to 31 are there for the sampled token and those before the last predicted one.
    expect(outputs[0]!.predictedIds).toHaveLength(32 - PROMPT.length + 1);
  });
});

it('a model that is loaded without its prediction block refuses to predict', async () => {
  const limits = { maxContext: 64, maxSequences: 4, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const path = writeRandomFamily('qwen35', { predicts: true });
  const model = await loadModel(device, { path, kvCacheType: 'f16', ...limits }, () => {});
  try {
    const driver = new Driver(model);
    const step = driver.step([{ count: PROMPT.length, predictedTokens: 1 }], [driver.open(0)]);
    await expect(step).rejects.toThrow(/predicted tokens of a model without a prediction block/);
  } finally {
    model.release();
  }
});
