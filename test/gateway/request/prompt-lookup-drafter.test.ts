import { describe, expect, it } from 'vitest';
import { PromptLookupDrafter } from '../../../src/gateway/request/prompt-lookup-drafter.js';

const over = (tokens: readonly number[]) => new PromptLookupDrafter((position) => tokens[position]!);

describe('a lookup', () => {
  it('draftTokens what followed the last three tokens when they came before', () => {
    const tokens = [1, 2, 3, 4, 5, 6, 7, 1, 2, 3];
    expect(over(tokens).draftTokens(tokens.length, 3)).toEqual([4, 5, 6]);
  });

  it('takes the occurrence that came last', () => {
    const tokens = [1, 2, 3, 4, 0, 1, 2, 3, 9, 0, 1, 2, 3];
    expect(over(tokens).draftTokens(tokens.length, 1)).toEqual([9]);
  });

  it('goes on with what repeats itself', () => {
    const tokens = [7, 8, 7, 8, 7, 8];
    expect(over(tokens).draftTokens(tokens.length, 3)).toEqual([7, 8, 7]);
  });

  it('draftTokens nothing where the last three tokens are new', () => {
    const tokens = [1, 2, 3, 4, 2, 3];
    expect(over(tokens).draftTokens(tokens.length, 3)).toEqual([]);
    expect(over([1, 2]).draftTokens(2, 3)).toEqual([]);
    expect(over([]).draftTokens(0, 3)).toEqual([]);
  });

  it('draftTokens no more than it is asked for', () => {
    const tokens = [1, 2, 3, 4, 5, 1, 2, 3];
    expect(over(tokens).draftTokens(tokens.length, 2)).toEqual([4, 5]);
    expect(over(tokens).draftTokens(tokens.length, 0)).toEqual([]);
    expect(over(tokens).draftTokens(tokens.length, -1)).toEqual([]);
  });

  it('draftTokens more when all were right, and fewer when some were not', () => {
    const tokens = Array.from({ length: 60 }, (_, i) => i % 20);
    const lookup = over(tokens);
    expect(lookup.draftTokens(40, 100)).toHaveLength(3);
    lookup.learn(3, 3);
    expect(lookup.draftTokens(44, 100)).toHaveLength(6);
    lookup.learn(6, 6);
    expect(lookup.draftTokens(51, 100)).toHaveLength(7);
    lookup.learn(1, 7);
    expect(lookup.draftTokens(53, 100)).toHaveLength(2);
  });

  it('rests when nothing was right three times in a row, longer each time, and goes on when something is', () => {
    const tokens = Array.from({ length: 4000 }, (_, i) => i % 10);
    const lookup = over(tokens);
    const rests: number[] = [];
    for (let known = 20; known < tokens.length && rests.length < 4; ) {
      for (let i = 0; i < 3; i++) {
        expect(lookup.draftTokens(known, 4).length).toBeGreaterThan(0);
        lookup.learn(0, 3);
        known += 1;
      }
      const from = known;
      while (lookup.draftTokens(known, 4).length === 0) known += 1;
      rests.push(known - from);
    }
    expect(rests[1]! / rests[0]!).toBeCloseTo(2, 0);
    expect(rests[3]! / rests[2]!).toBeCloseTo(2, 0);
    lookup.learn(2, 3);
    for (let i = 0; i < 2; i++) lookup.learn(0, 3);
    expect(lookup.draftTokens(3990, 4).length).toBeGreaterThan(0);
  });
});
