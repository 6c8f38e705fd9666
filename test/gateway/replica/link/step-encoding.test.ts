import { describe, expect, it } from 'vitest';
import { checkEncodable, encodeStep } from '../../../../src/gateway/replica/link/step-encoding.js';
import { GREEDY, Sequence, type SequenceSampling } from '../../../../src/gateway/request/sequence.js';

const check = (sampling: Partial<SequenceSampling>): void =>
  checkEncodable({
    promptIds: Uint32Array.of(1, 2),
    sampling: { ...GREEDY, ...sampling },
    maxTokens: 4,
    priority: 0,
  });

describe('what a frame says of a request', () => {
  it('is written before a step has it', () => {
    expect(() => check({ logitBias: [[7, -1.5]], suppressedIds: [2] })).not.toThrow();
  });

  it.each([
    ['a parameter that no word holds', { topK: -1 }],
    ['a token id that is none', { suppressedIds: [-1] }],
    ['a bias for half a token', { logitBias: [[0.5, 1]] }],
    ['a bias that no float32 holds', { logitBias: [[7, 1e39]] }],
  ] as const)('%s fails its own request alone', (_what, sampling) => {
    expect(() => check(sampling)).toThrow(expect.objectContaining({ reason: 'INTERNAL' }));
  });
});

it('a slot that is opened again is told which tokens are the prompt: penalties and min_tokens count the others', () => {
  const sequence = new Sequence({ promptIds: Uint32Array.of(1, 2), sampling: GREEDY, maxTokens: 9, priority: 0 });
  const openOf = () => {
    const opens = [{ sequence, slot: 0, blocks: [1], windowStart: 0, windowBlocks: [] }];
    const [open] = encodeStep({ stepId: 1, closes: [], opens, appends: [], slices: [] }, 1n).opens;
    const { promptTokens, tokenIds } = open as NonNullable<typeof open>;
    return { promptTokens, tokens: [...new Uint32Array(Uint8Array.from(tokenIds).buffer)] };
  };
  expect(openOf()).toEqual({ promptTokens: 2, tokens: [1, 2] });
  sequence.emitted.push(7, 8);
  expect(openOf()).toEqual({ promptTokens: 2, tokens: [1, 2, 7, 8] });
});
