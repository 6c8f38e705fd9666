import fc from 'fast-check';
import { it } from 'vitest';
import { mixStreams as contract } from '../../src/executor/kernels/index.js';
import { mixStreams } from './reference/mix_streams.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const NAMES = ['x', 'second', 'third', 'fourth', 'kept'] as const;

onEachTarget('mix_streams', (target) => {
  it.each([
    [4, 'adds to each stream a mixture of all'],
    [1, 'adds to each stream its share of what the first one gained'],
  ])('terms = %i: %s', (terms) =>
    target.check(
      fc.tuple(size(4), size(1200), fills(...FINITE), fc.constantFrom(1, 1 / 64, 8), seed),
      async ([rows, hidden, kind, scale, start]) => {
        const random = new Random(start);
        const rowsOf = () => fill(kind, rows * hidden, random);
        const streams = [rowsOf(), rowsOf(), rowsOf(), rowsOf()];
        const kept = rowsOf();
        const weight = fill('normal', hidden, random);
        const scores = fill('normal', rows * 4, random);
        const coefficients = fill('normal', terms * 16, random);
        const sizes = { hidden, terms, scale };
        const [x, second, third, fourth] = streams.map((stream) => stream.slice()) as [
          Float32Array,
          Float32Array,
          Float32Array,
          Float32Array,
        ];
        const made = await target.launch(
          contract,
          { x, second, third, fourth, kept: kept.slice(), weight, scores, coefficients, ...sizes },
          { rows },
        );
        const expected = mixStreams({ streams, kept, weight, scores, coefficients, ...sizes });
        for (const [i, name] of NAMES.entries()) expectClose(contract, made[name]!, expected[i]!, sizes);
      },
    ),
  );
});
