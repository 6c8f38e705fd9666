import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { KernelContract } from '../../src/executor/device/contract.js';
import {
  BLOCK_TYPES,
  blockFormat,
  matmul,
  matmulHeads,
  matmulQuantized,
  matmulQuantizedHeads,
  WEIGHT_FLOAT_TYPES,
} from '../../src/executor/kernels/index.js';
import { randomBlocks } from './support/blocks.js';
import { encode } from './support/half.js';
import { activations } from './support/packed.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, Random, seed } from './support/values.js';

const UNTOUCHED = -12_345;

type Elements = Float32Array | Uint8Array | Uint16Array;

/** A product of heads, the product of one matrix that each head's is to equal, and what both take. */
interface Case {
  readonly heads: KernelContract;
  readonly dense: KernelContract;
  readonly inner: number;
  /** Weights of so many rows. */
  weight(rows: number, random: Random): Elements;
  input(x: Float32Array): Elements;
  readonly scalars: Readonly<Record<string, number>>;
  readonly denseScalars: Readonly<Record<string, number>>;
}

const floats = WEIGHT_FLOAT_TYPES.map((type): Case => {
  const inner = 72;
  return {
    ...{ heads: matmulHeads(type), dense: matmul(type), inner },
    weight: (rows, random) => encode(type, fill('normal', rows * inner, random)) as Elements,
    input: (x) => x,
    ...{ scalars: { in: inner }, denseScalars: { x_stride: inner } },
  };
});
const blocks = BLOCK_TYPES.map((type): Case => {
  const { blockElements } = blockFormat(type);
  const inner = 256;
  return {
    ...{ heads: matmulQuantizedHeads(type), dense: matmulQuantized(type), inner },
    weight: (rows, random) => randomBlocks(type, (rows * inner) / blockElements, random),
    input: (x) => activations(x, inner).packed,
    ...{ scalars: { blocks: inner / blockElements }, denseScalars: {} },
  };
});

/** Room for more rows than the step has. */
const [HEADS, ROWS, MOST_ROWS] = [3, 5, 7] as const;

async function holds(target: Target, one: Case, out: number, gap: number, start: number): Promise<void> {
  const random = new Random(start);
  const { inner } = one;
  const weight = one.weight(HEADS * out, random);
  const x = fill('normal', HEADS * MOST_ROWS * inner, random);
  const head_stride = out + gap;
  const y_stride = HEADS * head_stride + gap;
  const y = new Float32Array((MOST_ROWS - 1) * y_stride + (HEADS - 1) * head_stride + out).fill(UNTOUCHED);
  const result = await target.launch(
    one.heads,
    {
      ...{ weight, x: one.input(x), y: y.slice(), tokens: Int32Array.of(ROWS), out, y_stride, head_stride },
      ...one.scalars,
    },
    { rows: MOST_ROWS, heads: HEADS },
  );
  const expected = y.slice();
  const size = weight.length / HEADS;
  for (let head = 0; head < HEADS; head++) {
    // The rows of all heads follow each other: as many as the step has.
    const rows = x.slice(head * ROWS * inner, (head + 1) * ROWS * inner);
    const own = await target.launch(
      one.dense,
      {
        ...{ weight: weight.slice(head * size, (head + 1) * size), x: one.input(rows) },
        ...{ y: new Float32Array(ROWS * out), tokens: Int32Array.of(ROWS), out, y_stride: out },
        ...{ ...one.scalars, ...one.denseScalars },
      },
      { rows: ROWS },
    );
    for (let row = 0; row < ROWS; row++)
      expected.set((own.y as Float32Array).subarray(row * out, (row + 1) * out), row * y_stride + head * head_stride);
  }
  expect(Buffer.from((result.y as Float32Array).buffer).equals(Buffer.from(expected.buffer))).toBe(true);
}

onEachTarget('matmul_heads', (target) => {
  const cases = [...floats, ...blocks].filter(({ heads, dense }) => target.has(heads) && target.has(dense));
  it.each(cases.map((one) => [one.heads.name, one] as const))(
    '%s: each head’s rows have the bits of their product alone, and all else is left alone',
    (_, one) =>
      target.check(
        fc.tuple(fc.integer({ min: 1, max: target.simulated ? 40 : 150 }), fc.nat(3), seed),
        ([out, gap, start]) => holds(target, one, out, gap, start),
        target.simulated ? 2 : 20,
      ),
  );
});
