import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  BLOCK_TYPES,
  blockFormat,
  isPackedType,
  matmulLanesExperts,
  matmulPackedExperts,
  type PackedType,
  packedRowBytes,
  Q8_BLOCK_BYTES,
} from '../../src/executor/kernels/index.js';
import { isFull } from '../support/run-size.js';
import { randomBlocks } from './support/blocks.js';
import { activations, repacked } from './support/packed.js';
import { Target, testTargets } from './support/targets.js';
import { fill, Random, seed } from './support/values.js';

/** Runs of four experts: one row, few, none, and as many as are multiplied in several turns. */
const RUNS = [
  [2, 0, 1],
  [0, 1, 2],
  [3, 3, 37],
  [1, 40, 0],
] as const;
const PLACES = 40;
const EXPERTS = RUNS.length;

interface Drawn {
  readonly type: PackedType;
  readonly inner: number;
  readonly out: number;
  readonly weight: Uint8Array;
  readonly x: Float32Array;
}

function draw(type: PackedType, blocks: number, out: number, start: number): Drawn {
  const random = new Random(start);
  const inner = 256 * blocks;
  const weight = randomBlocks(type, (EXPERTS * out * inner) / blockFormat(type).blockElements, random);
  return { type, inner, out, weight, x: fill('normal', PLACES * inner, random) };
}

/** The products on the host, `[PLACES, out]`. @param x as quantize_q8 makes it */
async function onHost(lanes: number, { type, inner, out, weight }: Drawn, x: Uint8Array): Promise<Float32Array> {
  const values = {
    weight,
    x,
    y: new Float32Array(PLACES * out),
    lanes,
    blocks: inner / blockFormat(type).blockElements,
  };
  const sizes = { runs: Int32Array.from(RUNS.flat()), out, y_stride: out };
  const dims = { places: PLACES, experts: EXPERTS, runs: EXPERTS, rows: PLACES };
  const result = await host.launch(matmulLanesExperts(type), { ...values, ...sizes }, dims);
  return result.y as Float32Array;
}

/** Rows whose blocks of 32 are those of one lane alone: the scales of the others are 0. */
function ofLane(rows: Uint8Array, inner: number, lanes: number, lane: number): Uint8Array {
  const own = rows.slice();
  const rowBytes = (inner / 32) * Q8_BLOCK_BYTES;
  for (let row = 0; row < PLACES; row++) {
    const scales = new Float32Array(own.buffer, row * rowBytes + inner, inner / 32);
    scales.forEach((_, block) => {
      if (block % lanes !== lane) scales[block] = 0;
    });
  }
  return own;
}

const host = new Target('host', 1);
const types = BLOCK_TYPES.filter(isPackedType);
// More blocks of 32 than lanes, of the larger wave too.
const shapes = fc.tuple(fc.constantFrom(5, 9), fc.integer({ min: 1, max: 6 }), seed);

describe.each(types)('matmul_lanes_experts_%s', (type) => {
  it.each([32, 64])('adds the partial sums of %d lanes in the order of a GPU', async (lanes) => {
    const drawn = draw(type, 18, 5, 3 + lanes);
    const parts: Float32Array[] = [];
    const rows = activations(drawn.x, drawn.inner).packed;
    for (let lane = 0; lane < lanes; lane++)
      parts.push(await onHost(lanes, drawn, ofLane(rows, drawn.inner, lanes, lane)));
    const expected = Array.from({ length: PLACES * drawn.out }, (_, i) => {
      const sums = parts.map((part) => part[i]!);
      const inOrder = sums.slice(0, 32).map((sum, l) => (lanes === 64 ? Math.fround(sum + sums[l + 32]!) : sum));
      return inOrder.reduce((sum, one) => Math.fround(sum + one));
    });
    expect([...(await onHost(lanes, drawn, rows))]).toEqual(expected);
  });
});

// Waves of simulated threads, where they are built.
const simulated = testTargets().filter(({ name }) => /^lanes\d+$/.test(name));
describe.each(simulated)('experts on the host in the order of $name', ({ name }) => {
  const gpu = new Target(name, 1);
  it.each(types)('%s: the bits of matmul_packed_experts', async (type) => {
    const holds = async ([blocks, out, start]: [number, number, number]): Promise<void> => {
      const drawn = draw(type, blocks, out, start);
      const { inner } = drawn;
      const x = activations(drawn.x, inner).packed;
      const packed = await gpu.launch(
        matmulPackedExperts(type, 'several'),
        {
          ...{ weight: repacked(type, drawn.weight, EXPERTS * out), x },
          ...{ y: new Float32Array(PLACES * out), runs: Int32Array.from(RUNS.flat()), out, y_stride: out },
          blocks: inner / 32,
        },
        { places: PLACES, experts: EXPERTS, runs: EXPERTS, rows: PLACES, row_bytes: packedRowBytes(type, inner) },
      );
      expect([...(await onHost(gpu.device.wave, drawn, x))]).toEqual([...(packed.y as Float32Array)]);
    };
    await fc.assert(fc.asyncProperty(shapes, holds), { numRuns: isFull ? 10 : 1 });
  });
});
