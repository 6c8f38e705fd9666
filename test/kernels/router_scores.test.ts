import fc from 'fast-check';
import { it } from 'vitest';
import { routerScores as contract } from '../../src/executor/kernels/index.js';
import { routerScores } from './reference/router_scores.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('router_scores', (target) => {
  it('multiplies each row with each expert’s', () =>
    target.check(
      fc.tuple(size(5), size(70), size(target.simulated ? 600 : 1500), fills(...FINITE), seed),
      async ([rows, experts, inner, kind, start]) => {
        const random = new Random(start);
        const weight = fill('normal', experts * inner, random);
        const x = fill(kind, rows * inner, random);
        const { y } = await target.launch(contract, { weight, x, experts, in: inner }, { rows });
        expectClose(contract, y!, routerScores(weight, x, experts, inner), { in: inner });
      },
    ));
});
