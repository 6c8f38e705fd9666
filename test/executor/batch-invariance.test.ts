import { createHash } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Device, openDevice } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/model/loaded-model.js';
import { StepRunner } from '../../src/executor/step-runner.js';
import { ExecuteRequest, SlotSampling } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { writeRandomModel } from '../support/random-model.js';

const MAX_SEQUENCES = 17;
const MAX_STEP_TOKENS = 1024;
const BLOCKS_A_SEQUENCE = 32;

/** Drives an executor without a gateway: sequences of known tokens, in steps as a test cuts them. */
class Driver {
  private readonly runner: StepRunner;
  private stepId = 0n;

  constructor(
    private readonly device: Device,
    private readonly model: LoadedModel,
    private readonly generation: bigint,
  ) {
    this.runner = new StepRunner(device, model, generation);
  }

  /** One step. `slices` are [slot, position, count, sample]. @returns a hash of the logits of each sampled slice */
  async step(
    slices: readonly (readonly [slot: number, position: number, count: number, sample: boolean])[],
    opens: readonly (readonly [slot: number, tokenIds: Uint32Array])[] = [],
  ): Promise<string[]> {
    this.stepId += 1n;
    await this.runner.submit({
      ...ExecuteRequest.create(),
      stepId: this.stepId,
      generation: this.generation,
      opens: opens.map(([slot, tokenIds]) => ({
        slot,
        tokenIds: Buffer.from(tokenIds.buffer),
        promptTokens: tokenIds.length,
        blockIds: Buffer.from(
          Uint32Array.from(
            { length: BLOCKS_A_SEQUENCE },
            (_, i) => 1 + ((slot * BLOCKS_A_SEQUENCE + i * 5) % (MAX_SEQUENCES * BLOCKS_A_SEQUENCE)),
          ).buffer,
        ),
        sampling: { ...SlotSampling.create(), topP: 1 },
      })),
      slices: slices.map(([slot, position, count, sample]) => ({ slot, position, count, sample })),
    });
    const vocabulary = this.model.forward.model.vocabularySize;
    const sampled = slices.filter(([, , , sample]) => sample).length;
    const logits = this.device.readF32(this.model.forward.logits, sampled * vocabulary);
    return Array.from({ length: sampled }, (_, i) =>
      createHash('sha256')
        .update(logits.subarray(i * vocabulary, (i + 1) * vocabulary))
        .digest('hex'),
    );
  }
}

const tokensOf = (seed: number, length: number) =>
  Uint32Array.from({ length }, (_, i) => 3 + ((seed * 7919 + i * 104_729 + i * i) % 280));

describe.each([
  ['F32', 'f32'],
  ['F16', 'f16'],
] as const)('with %s weights and %s KV cache', (type, kvCacheType) => {
  let device: Device;
  let model: LoadedModel;
  let generations = 0n;
  const driver = () => new Driver(device, model, ++generations);
  const prompt = tokensOf(1, 300);

  beforeAll(async () => {
    device = openDevice({ kind: 'host' });
    const options = {
      path: writeRandomModel({ type }),
      kvCacheType,
      maxContext: BLOCKS_A_SEQUENCE * 16,
      maxSequences: MAX_SEQUENCES,
      maxStepTokens: MAX_STEP_TOKENS,
      kvMemoryBytes: 0,
      fingerprint: '',
    };
    model = await loadModel(device, options, () => undefined);
  });

  /** The prompt in chunks, then three decoded tokens: the hashes of the four rows of logits. */
  async function run(chunk: number, others = 0): Promise<string[]> {
    const target = driver();
    const hashes: string[] = [];
    const slot = others;
    for (let position = 0; position < prompt.length; position += chunk) {
      const count = Math.min(chunk, prompt.length - position);
      const last = position + count === prompt.length;
      const companions = Array.from({ length: others }, (_, i) => i);
      const opens: (readonly [number, Uint32Array])[] =
        position === 0 ? [...companions.map((i) => [i, tokensOf(i + 2, 20 + 2 * i)] as const), [slot, prompt]] : [];
      const beside = companions.map((i) =>
        position === 0 ? ([i, 0, 20 + 2 * i, true] as const) : ([i, 20 + 2 * i - 1, 1, true] as const),
      );
      const sampled = await target.step([...beside, [slot, position, count, last]], opens);
      if (last) hashes.push(sampled.at(-1) as string);
    }
    for (let i = 0; i < 3; i++) hashes.push((await target.step([[slot, prompt.length + i, 1, true]])).at(-1) as string);
    return hashes;
  }

  it('a sequence has one hash of its logits: alone, and with its prompt in chunks of 1, 16, 17 and 500', async () => {
    const alone = await run(prompt.length);
    expect(new Set(alone).size).toBe(4);
    for (const chunk of [1, 16, 17, 500]) expect(await run(chunk), `chunks of ${chunk}`).toEqual(alone);
  });

  it('and the same among 16 others', async () => {
    const alone = await run(prompt.length);
    expect(await run(prompt.length, 16)).toEqual(alone);
    expect(await run(100, 16)).toEqual(alone);
  });
});
