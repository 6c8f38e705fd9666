import { expect, it } from 'vitest';
import { checkAnswer } from '../../../../src/gateway/replica/link/answer.js';
import { GREEDY, Sequence } from '../../../../src/gateway/request/sequence.js';
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
