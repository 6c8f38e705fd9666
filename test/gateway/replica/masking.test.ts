import { expect, it } from 'vitest';
import type { TokenMask } from '../../../src/gateway/matching/token-constraint.js';
import { Masking } from '../../../src/gateway/replica/masking.js';
import type { StepPlan } from '../../../src/gateway/replica/scheduler/step-plan.js';
import { GREEDY, Sequence } from '../../../src/gateway/request/sequence.js';
import type { ExecuteRequest } from '../../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { startFakeGateway } from '../../support/fake-gateway.js';
import { generate, request } from '../../support/gateway.js';

const sequence = (): Sequence =>
  new Sequence({ promptIds: Uint32Array.of(1, 2), sampling: GREEDY, maxTokens: 9, priority: 0 });
const mask = (bits: number): TokenMask => ({ bits: Uint8Array.of(bits, 0, 0, 0), onlyEnds: false });

/** A step of one token each, in slots by the order of the sequences. */
const step = (stepId: number, ...masks: readonly (readonly [Sequence, TokenMask | 'pending'])[]): StepPlan => ({
  ...{ stepId, closes: [], opens: [], appends: [] },
  slices: masks.map(([of, its], slot) => {
    return {
      sequence: of,
      slot,
      position: 1,
      count: 1,
      sample: true,
      promptLogprobs: false,
      pooling: undefined,
      mask: its,
    };
  }),
});

/** Messages of the stream, in order: ids of masks that are sent, and those that are named before they were. */
function listening() {
  const had = new Set<number>();
  const unknown: number[] = [];
  const frames: Pick<ExecuteRequest, 'stepId' | 'slotMasks'>[] = [];
  const masking = new Masking({ epoch: 1n, maskIds: 64, vocabularySize: 32 }, ({ stepId, masks, slotMasks }) => {
    for (const { id } of masks) had.add(id);
    for (const { mask } of slotMasks) if (!had.has(mask)) unknown.push(mask);
    frames.push({ stepId, slotMasks });
  });
  return {
    masking,
    unknown,
    frames,
    begin: (plan: StepPlan) => {
      const { masks, slices, before } = masking.begin(plan);
      for (const { id } of masks) had.add(id);
      for (const { mask } of before) if (!had.has(mask)) unknown.push(mask);
      if (before.length > 0) frames.push({ stepId: BigInt(plan.stepId), slotMasks: before });
      for (const each of slices) if (each !== undefined && each.id !== 0 && !had.has(each.id)) unknown.push(each.id);
    },
  };
}

it('a mask that two steps wait for comes with the first frame that names it', async () => {
  const { masking, unknown, frames, begin } = listening();
  const [first, second, third] = [sequence(), sequence(), sequence()];
  begin(step(1, [first, 'pending'], [third, 'pending']));
  begin(step(2, [second, 'pending']));
  masking.ready(first, mask(1));
  const shared = mask(2);
  masking.ready(second, shared);
  masking.ready(third, shared);
  await Promise.resolve();
  expect(frames.map(({ stepId, slotMasks }) => [stepId, slotMasks.length])).toEqual([
    [1n, 2],
    [2n, 1],
  ]);
  expect(unknown).toEqual([]);
});

it('a step brings what the one before it waits for', async () => {
  const { masking, unknown, frames, begin } = listening();
  const [waiting, other] = [sequence(), sequence()];
  begin(step(1, [waiting, 'pending']));
  const shared = mask(1);
  masking.ready(waiting, shared);
  begin(step(2, [other, shared]));
  await Promise.resolve();
  expect([frames.map(({ stepId }) => stepId), unknown]).toEqual([[2n], []]);
});

it('a step that names a mask which is still to be sent comes behind it, where others wait for theirs', async () => {
  const { masking, unknown, frames, begin } = listening();
  const [first, second, other] = [sequence(), sequence(), sequence()];
  begin(step(1, [first, 'pending']));
  begin(step(2, [second, 'pending']));
  const shared = mask(1);
  masking.ready(first, mask(2));
  masking.ready(second, shared);
  begin(step(3, [other, shared]));
  await Promise.resolve();
  expect([frames.map(({ stepId }) => stepId), unknown]).toEqual([[1n, 2n], []]);
});

it('steps do not wait for masks of a sequence that has ended, each in its turn', async () => {
  const { masking, unknown, frames, begin } = listening();
  const gone = sequence();
  begin(step(1, [gone, mask(1)]));
  begin(step(2, [gone, 'pending']));
  begin(step(3, [gone, 'pending']));
  gone.state = 'ended';
  masking.ended(gone);
  await Promise.resolve();
  expect(frames.map(({ stepId }) => stepId)).toEqual([2n]);
  masking.completed([]);
  await Promise.resolve();
  expect(frames).toHaveLength(1);
  // The third waits only if the second was late.
  masking.completed([]);
  await Promise.resolve();
  expect(frames.map(({ stepId }) => stepId)).toEqual([2n, 3n]);
  expect(unknown).toEqual([]);
});

it('what a sequence that has ended has in a step behind one that it was late in waits for nothing', async () => {
  const { masking, frames, begin } = listening();
  const gone = sequence();
  begin(step(1, [gone, 'pending']));
  begin(step(2, [gone, 'pending']));
  gone.state = 'ended';
  masking.completed([gone]);
  await Promise.resolve();
  expect(frames).toEqual([]);
});

it('another mask gets only the id of one that no step under way names', async () => {
  const sent: number[] = [];
  const masking = new Masking({ epoch: 1n, maskIds: 2, vocabularySize: 32 }, ({ masks }) => {
    for (const { id } of masks) sent.push(id);
  });
  const [late, other, next] = [sequence(), sequence(), sequence()];
  masking.begin(step(1, [late, 'pending']));
  const underWay = masking.begin(step(2, [other, mask(1)])).masks[0]?.id;
  // It is the first step’s, and comes when the second has named its own.
  masking.ready(late, mask(2));
  await Promise.resolve();
  masking.completed([]);
  const third = masking.begin(step(3, [next, mask(3)])).masks[0]?.id;
  expect(sent).toEqual([third]);
  expect(third).not.toBe(underWay);
});

it.each<[string, Parameters<typeof request>[0]]>([
  ['stops', { stop: { strings: ['e'], maxTokens: 400 } }],
  ['reaches its last token', { stop: { maxTokens: 9 } }],
])('an answer alone that %s leaves no step behind that waits for its mask', async (_what, rest) => {
  const server = await startFakeGateway({ lateMs: 3_600_000, stepMs: 1 });
  try {
    const constraint = { kind: { $case: 'regex' as const, value: '[a-z ]{400,}' } };
    const answer = await generate(server.client, request({ text: 'the fox', constraint, ...rest }));
    expect(answer.tokenIds.length).toBeGreaterThan(2);
    const { scheduler } = server.gateway.replica;
    await expect.poll(() => scheduler?.stepsInFlight).toBe(0);
    expect(server.executor.failure).toBeUndefined();
  } finally {
    await server.stop();
  }
});
