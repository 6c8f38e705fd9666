import { expect, it } from 'vitest';
import { GREEDY, Sequence } from '../../../src/gateway/request/sequence.js';

const REPEATING = [1, 2, 3, 4, 1, 2, 3];

function sequenceOf(minTokens = 0): Sequence {
  const sampling = { ...GREEDY, minTokens };
  return new Sequence({
    promptIds: Uint32Array.from(REPEATING),
    sampling,
    maxTokens: 100,
    priority: 0,
    speculates: true,
  });
}

/** Another token, under way when draft tokens are asked for, and then known. */
function emit(sequence: Sequence, token: number): readonly unknown[] {
  sequence.pending = 1;
  const held = sequence.draftTokens(7);
  sequence.pending = 0;
  sequence.emitted.push(token);
  return [held, sequence.draftTokens(7)];
}

it('a sequence that was held up for draftTokens which did not come is held up no more after three times, for a while', () => {
  const sequence = sequenceOf();
  for (let i = 0; i < 3; i++) {
    // It ends as it did before: what follows is expected, and another token comes.
    expect(emit(sequence, 50 + i)).toEqual(['coming', []]);
    sequence.emitted.push(1, 2, 3);
  }
  expect(emit(sequence, 60)).toEqual([[], []]);
});

it('draftTokens end before the token at which suppressed ones are let go', () => {
  const sequence = sequenceOf(3);
  expect(sequence.draftTokens(7)).toHaveLength(2);
  sequence.emitted.push(4, 1);
  expect(sequence.draftTokens(7)).toEqual([]);
  sequence.emitted.push(2);
  expect(sequence.draftTokens(7)).toHaveLength(3);
});
