import { describe, expect, it } from 'vitest';
import { checkEncodable } from '../../../../src/gateway/replica/link/step-encoding.js';
import { GREEDY, type SequenceSampling } from '../../../../src/gateway/request/sequence.js';

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
