import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sparseGeglu as contract } from '../../src/executor/kernels/index.js';
import { sparseGeglu } from './reference/sparse_geglu.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

/** 95 % of a normal distribution are below so many, as Gemma 3n's first layers have it. */
const DEVIATIONS = Math.fround(1.6448533535003662);

onEachTarget('sparse_geglu', (target) => {
  it('multiplies gelu of what each gate has above the cutoff of its row by up', () =>
    target.check(
      fc.tuple(size(4), size(1200), fills(...FINITE), fc.constantFrom(DEVIATIONS, 0, -0.5, 3), seed),
      async ([rows, most, kind, deviations, start]) => {
        const ffn = Math.max(2, most);
        const gate_up = fill(kind, rows * 2 * ffn, new Random(start));
        const { y } = await target.launch(contract, { gate_up, ffn, deviations }, { rows });
        expectClose(contract, y!, sparseGeglu(gate_up, ffn, deviations), { ffn });
      },
    ));

  it('passes 5 % of normally distributed gates', async () => {
    const random = new Random(3);
    const normal = () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
    const ffn = 8192;
    const gate_up = Float32Array.from({ length: 2 * ffn }, (_, i) => (i < ffn ? 3 + normal() : 1));
    const { y } = await target.launch(contract, { gate_up, ffn, deviations: DEVIATIONS }, { rows: 1 });
    const passed = Array.from(y as Float32Array).filter((value) => value > 0).length / ffn;
    expect(passed).toBeGreaterThan(0.04);
    expect(passed).toBeLessThan(0.06);
  });
});
