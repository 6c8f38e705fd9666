import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  routeExperts as contract,
  ROUTE_CHOSEN,
  ROUTE_SIGMOID,
  ROUTE_SOFTMAX,
} from '../../src/executor/kernels/index.js';
import { routeExperts } from './reference/route_experts.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random, seed, size } from './support/values.js';

const SCORINGS = { softmax: ROUTE_SOFTMAX, sigmoid: ROUTE_SIGMOID, chosen: ROUTE_CHOSEN } as const;

onEachTarget('route_experts', (target) => {
  it('chooses the highest, in the order of their ids, and weighs them', () =>
    target.check(
      fc.tuple(
        fc.record({
          rows: size(4),
          experts: size(target.simulated ? 130 : 512),
          used: fc.integer({ min: 1, max: 32 }),
        }),
        fc.constantFrom('softmax' as const, 'sigmoid' as const, 'chosen' as const),
        fc.record({
          ...{ normalizes: fc.boolean(), scale: fc.constantFrom(1, 2.5), isBiased: fc.boolean() },
          groups: fc.constantFrom([1, 1], [2, 1], [8, 3], [64, 40]),
        }),
        seed,
      ),
      async ([drawn, scoring, { normalizes, scale, isBiased, groups: wanted }, start]) => {
        const random = new Random(start);
        const [count, usedGroups] = wanted as [number, number];
        // A group counts as its two best: it has as many.
        const size = Math.max(count === 1 ? 1 : 2, Math.floor(drawn.experts / count));
        const [rows, experts] = [drawn.rows, count * size];
        const used = Math.min(drawn.used, usedGroups * size);
        const scores = fill('normal', rows * experts, random);
        const bias = isBiased ? fill('normal', experts, random) : new Float32Array(experts);
        const values = {
          scores,
          bias,
          experts,
          used,
          scoring: SCORINGS[scoring],
          normalizes: Number(normalizes),
          scale,
          groups: count,
          used_groups: usedGroups,
        };
        const result = await target.launch(contract, values, { rows });
        const expected = routeExperts(scores, bias, {
          ...{ experts, used, scoring, normalizes, scale },
          groups: { count, used: usedGroups },
        });
        // A softmax over many makes values that lie nearer to each other than an f32 can tell.
        fc.pre(expected.gap > 1e-6);
        expect([...(result.ids as Int32Array)]).toEqual([...expected.ids]);
        expectClose(contract, result.weights!, expected.weights, { experts });
      },
    ));

  it('chooses the lower id of equal scores, and as many as ever of NaN', async () => {
    const scores = Float32Array.of(...[1, 3, 3, 3, 0, 0], ...Array<number>(6).fill(Number.NaN));
    const values = {
      scores,
      bias: new Float32Array(6),
      experts: 6,
      used: 2,
      scoring: ROUTE_SOFTMAX,
      normalizes: 1,
      scale: 1,
      groups: 1,
      used_groups: 1,
    };
    const { ids } = await target.launch(contract, values, { rows: 2 });
    expect([...(ids as Int32Array)]).toEqual([1, 2, 0, 1]);
  });

  it('divides by no less than the smallest normal f16', async () => {
    const scores = Float32Array.of(-30, -31, -80, -80);
    const values = {
      scores,
      bias: new Float32Array(4),
      experts: 4,
      used: 2,
      scoring: ROUTE_SIGMOID,
      normalizes: 1,
      scale: 1,
      groups: 1,
      used_groups: 1,
    };
    const { weights } = await target.launch(contract, values, { rows: 1 });
    const expected = routeExperts(scores, values.bias, {
      experts: 4,
      used: 2,
      scoring: 'sigmoid',
      normalizes: true,
      scale: 1,
    });
    expectClose(contract, weights!, expected.weights, { experts: 4 });
    expect((weights as Float32Array)[0]).toBeLessThan(1e-8);
  });
});
