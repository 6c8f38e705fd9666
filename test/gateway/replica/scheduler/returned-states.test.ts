import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../../../src/gateway/replica/scheduler/scheduler.js';
import type { Pooling } from '../../../../src/gateway/request/pooling.js';
import { GREEDY, Sequence } from '../../../../src/gateway/request/sequence.js';

const LIMITS = { maxSequences: 4, maxStepTokens: 40, kvBlocks: 60, prefixCache: true };

/** Positions, pooling and sampling of each slice of a prompt that is computed alone. */
function slicesOf(pooling: Pooling | undefined, tokens: number, limits = LIMITS) {
  const scheduler = new Scheduler(limits);
  const sequence = new Sequence({
    ...{ promptIds: new Uint32Array(tokens).fill(1), sampling: GREEDY, maxTokens: 1, priority: 0 },
    ...{ takesPrefix: false, returns: pooling && { pooling } },
  });
  scheduler.add(sequence);
  const slices: (readonly [count: number, pooling: Pooling | undefined, sample: boolean])[] = [];
  for (let plan = scheduler.plan(); plan !== undefined; plan = scheduler.plan()) {
    const [slice] = plan.slices;
    slices.push([slice!.count, slice!.pooling, slice!.sample]);
    scheduler.complete(slice!.sample ? [7] : []);
  }
  scheduler.check();
  return slices;
}

describe('a prompt of a decoder whose hidden states are returned', () => {
  it('takes as many rows of a step as any other where they are pooled to a mean, in all of its slices', () => {
    expect(slicesOf('mean', 90)).toEqual([
      [40, 'mean', false],
      [40, 'mean', false],
      [10, 'mean', true],
    ]);
  });

  it('is pooled with its last slice alone where that is its last state', () => {
    expect(slicesOf('last', 90)).toEqual([
      [40, undefined, false],
      [40, undefined, false],
      [10, 'last', true],
    ]);
  });

  it('takes a row of logits for each state where they are not pooled', () => {
    expect(slicesOf('none', 9)).toEqual([
      [4, 'none', false],
      [4, 'none', false],
      [1, 'none', true],
    ]);
  });
});
