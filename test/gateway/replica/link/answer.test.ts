import { describe, expect, it } from 'vitest';
import { checkAnswer } from '../../../../src/gateway/replica/link/answer.js';
import type { PlannedSlice } from '../../../../src/gateway/replica/scheduler/step-plan.js';
import { GREEDY, type ReturnedStates, Sequence } from '../../../../src/gateway/request/sequence.js';
import { ExecuteResponse } from '../../../../src/shared/generated/rocmforge/executor/v1/executor.js';

const sequence = new Sequence({
  ...{ promptIds: Uint32Array.of(1, 2, 3), sampling: GREEDY, maxTokens: 9, priority: 0 },
});
const slice = {
  ...{ sequence, slot: 0, position: 0, count: 3, sample: true, promptLogprobs: false, pooling: undefined },
  predictedTokens: 2,
};
const step = { stepId: 1, closes: [], opens: [], appends: [], slices: [slice] };
const check = (predictedIds: number[]) => () =>
  checkAnswer(step, ExecuteResponse.fromPartial({ stepId: 1n, outputs: [{ tokenId: 4, predictedIds }] }), {
    ...{ vocabularySize: 100, hiddenSize: 0, labels: 0, encoder: false },
  });

it('predicted tokens are those that the slice requests, or fewer', () => {
  for (const ids of [[], [99], [0, 99]]) expect(check(ids)).not.toThrow();
  expect(check([1, 2, 3])).toThrow('the executor answered with 3 predicted tokens instead of at most 2');
});

it('predicted tokens beyond the vocabulary are refused: they would be draft tokens of the next step', () => {
  expect(check([5, 100])).toThrow('the executor answered with predicted token 100 instead of one below 100');
});

describe('hidden states are those of the slices that return some', () => {
  const model = { vocabularySize: 100, hiddenSize: 8, labels: 2, encoder: false };
  const checkStates = (
    returns: ReturnedStates,
    lengths: readonly number[],
    rest: Partial<PlannedSlice> = {},
    of = model,
  ) =>
    checkAnswer(
      {
        ...step,
        slices: [{ ...slice, sequence: new Sequence({ ...sequence.options, returns }), ...returns, ...rest }],
      },
      ExecuteResponse.fromPartial({
        ...{ stepId: 1n, outputs: rest.sample === false ? [] : [{ tokenId: 4 }] },
        hiddenStates: lengths.map((length) => Buffer.alloc(length)),
      }),
      of,
    );

  it('one of a pooled prompt’s last slice, two scores of a head, and one of each position that is not pooled', () => {
    expect(() => checkStates({ pooling: 'mean' }, [32])).not.toThrow();
    expect(() => checkStates({ pooling: 'last', isScored: true }, [8])).not.toThrow();
    expect(() => checkStates({ pooling: 'none' }, [96])).not.toThrow();
    expect(() => checkStates({ pooling: 'none' }, [96], { sample: false })).not.toThrow();
    expect(() => checkStates({ pooling: 'mean' }, [], { sample: false })).not.toThrow();
    expect(() => checkStates({ pooling: 'cls' }, [32], { sample: false }, { ...model, encoder: true })).not.toThrow();
    expect(() => checkStates({ pooling: 'mean' }, [], {}, { ...model, hiddenSize: 0 })).not.toThrow();
  });

  it('others are refused', () => {
    expect(() => checkStates({ pooling: 'mean' }, [96])).toThrow('hidden states of 96 bytes instead of 32');
    expect(() => checkStates({ pooling: 'mean', isScored: true }, [32])).toThrow('of 32 bytes instead of 8');
    expect(() => checkStates({ pooling: 'none' }, [32])).toThrow('of 32 bytes instead of 96');
    expect(() => checkStates({ pooling: 'last' }, [])).toThrow('hidden states of 0 slices instead of 1');
    expect(() => checkStates({ pooling: 'mean' }, [32], { sample: false })).toThrow('of 1 slices instead of 0');
  });
});
