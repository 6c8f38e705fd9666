import { expect, it } from 'vitest';
import { grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import { ROUNDS, samples } from '../../../src/gateway/matching/grammar-warm-up.js';
import { Matchers } from '../../../src/gateway/matching/matchers.js';
import { smallSpm, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';

it('what threads warm up with can be translated, and differs from round to round', () => {
  const rounds = Array.from({ length: ROUNDS }, (_, round) => samples(round));
  for (const sample of rounds.flat()) expect(() => grammarOf(sample)).not.toThrow();
  expect(new Set(rounds.flat().map((sample) => JSON.stringify(sample))).size).toBe(rounds.flat().length);
});

it('threads translate constraints while they warm up, and end', async () => {
  const matchers = new Matchers({ tokenizer: tokenizerOf(smallSpm()) });
  matchers.warmUp();
  const constraints = ['a+', 'b+', 'c+'].map((value) => ({ $case: 'regex' as const, value }));
  const opened = await Promise.all(constraints.map((constraint) => matchers.open(constraint, { principal: 'a' })));
  for (const answer of opened) {
    expect(answer.mask).toBeDefined();
    answer.close();
  }
  await matchers.close();
});
