import { afterEach, describe, expect, it } from 'vitest';
import { ExecuteRequest, SlotOpen } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { FakeDevice, fakeTokens } from '../doubles/fake-device.js';
import { FAKE_VOCABULARY, type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';

const stop = { maxTokens: 40, ignoreEos: true };
const promptOf = (length: number, from = 0) => Array.from({ length }, (_, i) => 259 + ((from + i) % 40));

describe('a gateway before a scripted executor', () => {
  let server: FakeGateway | undefined;
  afterEach(async () => {
    await server?.stop();
    server = undefined;
  });

  it('streams the tokens that follow from the prompt, whatever runs beside it', async () => {
    server = await startFakeGateway({ maxSequences: 4, maxStepTokens: 24, kvBlocks: 20 });
    const { client } = server;
    const prompts = Array.from({ length: 24 }, (_, i) => promptOf(10 + 3 * i, i % 5));
    const answers = await Promise.all(prompts.map((tokens) => generate(client, request({ tokens, stop }))));
    answers.forEach((answer, i) => {
      expect(answer.tokenIds).toEqual(fakeTokens(prompts[i] as number[], 40, FAKE_VOCABULARY));
    });
    expect(server.executor.failure).toBeUndefined();
  });

  it('records each KV write: every position of a sequence once, in its own block', async () => {
    server = await startFakeGateway();
    const device = server.executor.device as FakeDevice;
    device.writes = [];
    await generate(server.client, request({ tokens: promptOf(20), stop }));
    const { writes } = device;
    // The last token is sampled and never computed.
    expect(writes.map(({ position }) => position)).toEqual(Array.from({ length: 59 }, (_, i) => i));
    for (const { position, offset } of writes) expect(offset).toBe(position % 16);
    expect(new Set(writes.map(({ sequence }) => sequence)).size).toBe(1);
    expect(new Set(writes.map(({ block }) => block)).size).toBe(4);
  });

  it('waits while the executor stalls, and goes on', async () => {
    server = await startFakeGateway();
    const release = server.executor.stall();
    let done = false;
    const answer = generate(server.client, request({ tokens: promptOf(20), stop })).then((generated) => {
      done = true;
      return generated;
    });
    await expect.poll(() => server?.gateway.replica.scheduler?.stepsInFlight).toBe(2);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(done).toBe(false);
    expect(server.gateway.replica.scheduler?.stepsInFlight).toBe(2);
    release();
    expect((await answer).tokenIds).toEqual(fakeTokens(promptOf(20), 40, FAKE_VOCABULARY));
  });
});

describe('the scripted executor refuses', () => {
  const bytes = (values: readonly number[]) => Buffer.from(Uint32Array.from(values).buffer);
  const open = (slot: number, tokens: readonly number[], blocks: readonly number[]) => ({
    ...SlotOpen.create(),
    slot,
    tokenIds: bytes(tokens),
    promptTokens: tokens.length,
    blockIds: bytes(blocks),
    sampling: encodeSampling(NEUTRAL_SAMPLING),
  });
  const slice = (slot: number, position: number, count: number) => ({
    slot,
    position,
    count,
    sample: true,
    promptLogprobs: false,
  });
  const step = (parts: Partial<ExecuteRequest>) => ({ ...ExecuteRequest.create(), ...parts });
  const device = () => new FakeDevice({ maxSequences: 4, maxStepTokens: 64, kvBlocks: 10 }, FAKE_VOCABULARY);

  it('a write to a block that another live sequence holds', () => {
    const shared = device();
    shared.run(step({ opens: [open(0, promptOf(20), [1, 2])], slices: [slice(0, 0, 20)] }));
    const intruder = step({ opens: [open(1, promptOf(20), [1, 3])], slices: [slice(1, 0, 20)] });
    expect(() => shared.run(intruder)).toThrow('block 1 of 2 sequences is written');
  });

  it('a prefix that is not what the sequence would have computed', () => {
    const shared = device();
    shared.run(step({ opens: [open(0, promptOf(20), [1, 2])], slices: [slice(0, 0, 20)] }));
    const wrong = step({ opens: [open(1, promptOf(20, 1), [1, 3])], slices: [slice(1, 16, 4)] });
    expect(() => shared.run(wrong)).toThrow('is not its own');
  });

  it('a sequence whose block was written by somebody after it was given up too early', () => {
    const shared = device();
    shared.run(step({ opens: [open(0, promptOf(20), [1, 2])], slices: [slice(0, 0, 20)] }));
    shared.run(step({ closes: [0], opens: [open(1, promptOf(20, 3), [1, 3])], slices: [slice(1, 0, 20)] }));
    const back = step({ opens: [open(0, promptOf(20), [1, 4])], slices: [slice(0, 16, 4)] });
    expect(() => shared.run(back)).toThrow('is not its own');
  });
});
