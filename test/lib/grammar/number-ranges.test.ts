import { expect, it } from 'vitest';
import { constraintGrammar } from '../../../src/lib/grammar/constraint-grammar.js';
import { acceptedBy } from '../../support/byte-engine.js';
import { Random } from '../../support/random.js';
import { seed } from '../../support/run-size.js';

const BOUNDS = [
  0, 1, 9, 10, 11, 99, 100, 255, 1234, -1, -9, -10, -100, -305, 0.5, 0.05, -0.5, 12.34, -99.9, 1e-7, 1e21,
];

it('a number is in a range by its value, whatever digits bound it', async () => {
  const random = new Random(seed(7));
  for (let round = 0; round < 60; round++) {
    const low = BOUNDS[random.below(BOUNDS.length)]!;
    const high = BOUNDS[random.below(BOUNDS.length)]!;
    if (high <= low) continue;
    const [lower, upper] = [random.below(2) === 0, random.below(2) === 0];
    const schema = {
      type: 'number',
      [lower ? 'minimum' : 'exclusiveMinimum']: low,
      [upper ? 'maximum' : 'exclusiveMaximum']: high,
    };
    const near = [low, high].flatMap((bound) => [
      bound,
      bound + 1,
      bound - 1,
      bound / 10,
      bound * 10,
      -bound,
      bound + 0.001,
    ]);
    const texts = [...new Set([...near, 0, 7, -7, 0.25].map(String).filter((text) => !text.includes('e')))];
    const isIn = (value: number) => (lower ? value >= low : value > low) && (upper ? value <= high : value < high);
    const grammar = constraintGrammar({ $case: 'jsonSchema', value: JSON.stringify(schema) });
    expect(await acceptedBy(grammar, texts), JSON.stringify(schema)).toEqual(
      texts.filter((text) => isIn(Number(text))),
    );
  }
});
