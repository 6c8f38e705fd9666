import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { KernelContract } from '../../src/executor/device/contract.js';
import {
  BLOCK_TYPES,
  blockFormat,
  matmul,
  matmulExperts,
  matmulPacked,
  matmulPackedExperts,
  matmulPackedExpertsTile,
  matmulQuantized,
  matmulQuantizedExperts,
  matmulTile,
  matmulTileExperts,
  PACKED_TYPES,
  packedRowBytes,
  TILE_TYPES,
  TILE_VARIANT_NAMES,
  WEIGHT_FLOAT_TYPES,
} from '../../src/executor/kernels/index.js';
import { randomBlocks } from './support/blocks.js';
import { encode } from './support/half.js';
import { activations, repacked } from './support/packed.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, Random, seed } from './support/values.js';

const UNTOUCHED = -12_345;

type Array_ = Float32Array | Uint8Array | Uint16Array;

/** A product of experts, the product of one matrix that it is to equal, and what both take. */
interface Case {
  readonly experts: KernelContract;
  readonly dense: KernelContract;
  readonly inner: number;
  /** Weights of so many rows. */
  weight(rows: number, random: Random): Array_;
  input(x: Float32Array): Array_;
  /** Scalars of both that say how wide they are. */
  readonly scalars: Readonly<Record<string, number>>;
  readonly denseScalars: Readonly<Record<string, number>>;
  readonly dimensions: Readonly<Record<string, number>>;
}

/** Places of three experts' runs, and one between that is nobody's; the last two have none. */
const RUNS = [
  [4, 0, 1],
  [1, 1, 5],
  [2, 7, 2],
  [0, 9, 0],
  [3, 9, 0],
] as const;
const PLACES = 9;

async function holds(target: Target, one: Case, out: number, yGap: number, start: number): Promise<void> {
  const random = new Random(start);
  const { inner } = one;
  const weight = one.weight(RUNS.length * out, random);
  const x = fill('normal', PLACES * inner, random);
  const y_stride = out + yGap;
  const y = new Float32Array((PLACES - 1) * y_stride + out).fill(UNTOUCHED);
  const result = await target.launch(
    one.experts,
    { weight, x: one.input(x), y: y.slice(), runs: Int32Array.from(RUNS.flat()), out, y_stride, ...one.scalars },
    { places: PLACES, experts: RUNS.length, runs: RUNS.length, rows: PLACES, ...one.dimensions },
  );
  const expected = y.slice();
  const weightOf = weight.length / RUNS.length;
  for (const [expert, first, count] of RUNS) {
    if (count === 0) continue;
    const rows = x.slice(first * inner, (first + count) * inner);
    const own = await target.launch(
      one.dense,
      {
        ...{ weight: weight.slice(expert * weightOf, (expert + 1) * weightOf), x: one.input(rows) },
        ...{ y: new Float32Array(count * out), tokens: Int32Array.of(count), out, y_stride: out },
        ...one.scalars,
        ...one.denseScalars,
      },
      { rows: count, ...one.dimensions },
    );
    for (let row = 0; row < count; row++) {
      expected.set((own.y as Float32Array).subarray(row * out, (row + 1) * out), (first + row) * y_stride);
    }
  }
  expect(Buffer.from(bytesOf(result.y as Float32Array)).equals(bytesOf(expected)), one.experts.name).toBe(true);
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array) => new Uint8Array(buffer, byteOffset, byteLength);

const floats = WEIGHT_FLOAT_TYPES.map((type): Case => {
  const inner = 72;
  return {
    ...{ experts: matmulExperts(type), dense: matmul(type), inner },
    weight: (rows, random) => encode(type, fill('normal', rows * inner, random)) as Array_,
    input: (x) => x,
    ...{ scalars: { in: inner }, denseScalars: { x_stride: inner }, dimensions: {} },
  };
});
const tiles = TILE_TYPES.flatMap((type) =>
  TILE_VARIANT_NAMES.map((form): Case => {
    const inner = 72;
    return {
      ...{ experts: matmulTileExperts(type, form), dense: matmulTile(type, form), inner },
      weight: (rows, random) => encode(type, fill('normal', rows * inner, random)) as Array_,
      input: (x) => encode(type, x) as Array_,
      ...{ scalars: { in: inner }, denseScalars: { accumulate: 0 }, dimensions: {} },
    };
  }),
);
const blocks = BLOCK_TYPES.map((type): Case => {
  const inner = 256;
  return {
    ...{ experts: matmulQuantizedExperts(type), dense: matmulQuantized(type), inner },
    weight: (rows, random) => randomBlocks(type, (rows * inner) / blockFormat(type).blockElements, random),
    input: (x) => activations(x, inner).packed,
    ...{ scalars: { blocks: inner / blockFormat(type).blockElements }, denseScalars: {}, dimensions: {} },
  };
});
const packed = PACKED_TYPES.flatMap((type) =>
  (['one', 'several', 'tile'] as const).map((form): Case => {
    const inner = 256;
    return {
      experts: form === 'tile' ? matmulPackedExpertsTile(type) : matmulPackedExperts(type, form),
      // Any form: they have the same bits.
      dense: matmulPacked(type, 'several'),
      inner,
      weight: (rows, random) =>
        repacked(type, randomBlocks(type, (rows * inner) / blockFormat(type).blockElements, random), rows),
      input: (x) => activations(x, inner).packed,
      ...{ scalars: { blocks: inner / 32 }, denseScalars: { accumulate: 0 } },
      dimensions: { row_bytes: packedRowBytes(type, inner) },
    };
  }),
);

onEachTarget('matmul_experts', (target) => {
  const cases = [...floats, ...tiles, ...blocks, ...packed].filter(({ experts }) => target.has(experts));
  it.each(cases.map((one) => [one.experts.name, one] as const))(
    '%s: each run has the bits of its expert’s product alone, and all else is left alone',
    (_, one) =>
      target.check(
        fc.tuple(fc.integer({ min: 1, max: target.simulated ? 40 : 150 }), fc.nat(3), seed),
        ([out, yGap, start]) => holds(target, one, out, yGap, start),
        target.simulated ? 2 : 20,
      ),
  );
});
