import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { RandomWeights } from '../../src/cli/synth/random-weights.js';
import { loadAddon } from '../../src/executor/device/addon.js';
import { aligned, defineKernel, i32, inout, input } from '../../src/executor/device/contract.js';
import { Device } from '../../src/executor/device/device.js';
import { exact } from '../../src/executor/device/tolerance.js';
import {
  BLOCK_TYPES,
  type BlockType,
  blockFormat,
  chunksOf,
  FRAGMENT_CHUNK,
  FRAGMENT_TILE_ROWS,
  fragmentBytes,
  fragmentFormat,
  packFragments,
  tileBytes,
  tilesOf,
} from '../../src/executor/kernels/index.js';
import { packageRoot } from '../../src/shared/package.js';
import { integerBlocks, readBlocks, type Weights } from './reference/blocks.js';
import { randomBlocks } from './support/blocks.js';
import { launch } from './support/launch.js';
import { Random } from './support/values.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-fragments-'));
let device: Device;

beforeAll(() => {
  const kernels = path.join(folder, 'kernels');
  cpSync(path.join(packageRoot, 'kernels', 'forge'), path.join(kernels, 'forge'), { recursive: true });
  cpSync(
    path.join(packageRoot, 'kernels', 'hopper/pack_fragments.hip'),
    path.join(kernels, 'hopper/pack_fragments.hip'),
  );
  cpSync(path.join(packageRoot, 'test', 'kernels', 'support', 'unpacked.hip'), path.join(kernels, 'unpacked.hip'));
  const build = path.join(packageRoot, 'tools', 'build-kernels.mjs');
  const options = ['--target', 'lanes32', '--only', 'unpacked.hip', '--kernels', kernels, '--output', folder];
  execFileSync(process.execPath, [build, ...options], { stdio: 'pipe' });
  const library = path.join(folder, 'lanes32', 'lanes.so');
  device = new Device(new (loadAddon().Device)({ library, threads: 1 }), 'host', 'lanes');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const unpacked = (type: BlockType) =>
  defineKernel({
    name: `unpacked_${fragmentFormat(type)}`,
    source: 'unpacked.hip',
    summary: 'fragments as numbers',
    arguments: [
      aligned(16, input('weight', 'u8', 'tiles', 'chunks', `${tileBytes(fragmentFormat(type))}`)),
      inout('y', 'f32', 'tiles', `${FRAGMENT_TILE_ROWS}`, 'chunks', `${FRAGMENT_CHUNK}`),
      i32('out'),
      i32('in'),
    ],
    grid: [{ of: 'tiles * chunks * 128', per: 'block' }],
    tolerance: exact('held by the test'),
  });

/** A matrix of random blocks, packed and unpacked, with its padding; and the flag that a scale was too large. */
async function throughFragments(type: BlockType, source: Uint8Array, out: number, columns: number) {
  const dims = { tiles: tilesOf(out), chunks: chunksOf(columns) };
  const { target, overflow } = await launch(
    device,
    packFragments(type),
    {
      ...{ source, target: new Uint8Array(fragmentBytes(type, out, columns)).fill(0xff) },
      ...{ overflow: Int32Array.of(0), out, in: columns },
    },
    { ...dims, blocks: columns / blockFormat(type).blockElements },
  );
  const width = dims.chunks * FRAGMENT_CHUNK;
  const y = new Float32Array(dims.tiles * FRAGMENT_TILE_ROWS * width).fill(Number.NaN);
  const result = await launch(device, unpacked(type), { weight: target as Uint8Array, y, out, in: columns }, dims);
  return { values: result.y as Float32Array, width, overflow: (overflow as Int32Array)[0] };
}

const randomSource = (type: BlockType, rows: number, columns: number): Uint8Array => {
  const random = new Random(31);
  const weights = new RandomWeights((bytes) => {
    for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256);
  });
  const name = type.toUpperCase() as Uppercase<BlockType>;
  return Uint8Array.from(Buffer.concat([...weights.bytes(name, [columns, rows])]));
};

/** By how much quants are stored too large. */
const ZEROS: Partial<Record<BlockType, number>> = { q4_0: 8, q5_0: 16, q3_k: 4, q6_k: 32 };
/** Elements that surely share a scale. */
const GROUP = 16;

/**
 * Tolerated error of fragments. Scale, offset and element are rounded to f16 once each, 2⁻¹¹ of scale · stored, of offset
 * and of the element; or 2⁻²⁵ of what fragments hold, which is a 64th of it at the least.
 */
function bounds(type: BlockType, source: Uint8Array, { products, minimums }: Weights): Float64Array {
  const stored = integerBlocks(type, source);
  const zero = ZEROS[type] ?? 0;
  return products.map((product, i) => {
    const group = i - (i % GROUP);
    const other = Array.from({ length: GROUP }, (_, e) => group + e).find((e) => stored[e] !== zero)!;
    const zeros = zero === 0 ? 0 : Math.abs((zero * products[other]!) / (stored[other]! - zero));
    const magnitudes = Math.abs(product) + 2 * zeros + Math.abs(minimums[i]!) + Math.abs(product - minimums[i]!);
    return 2 ** -11 * 1.001 * magnitudes + 2 * 64 * 2 ** -25;
  });
}

it.each(BLOCK_TYPES)('%s: what lanes bring to Hopper’s matrix instructions is what blocks stand for', async (type) => {
  const [out, columns] = [83, blockFormat(type).blockElements === 256 ? 512 : 96];
  const source = randomSource(type, out, columns);
  const { values, width, overflow } = await throughFragments(type, source, out, columns);
  expect(overflow).toBe(0);
  const weights = readBlocks(type, source);
  const bound = bounds(type, source, weights);
  const wrong = [...values.keys()].filter((i) => {
    const [row, k] = [Math.floor(i / width), i % width];
    // Padding is zeros.
    if (row >= out || k >= columns) return values[i] !== 0;
    const at = row * columns + k;
    return !(Math.abs(values[i]! - (weights.products[at]! - weights.minimums[at]!)) <= bound[at]!);
  });
  expect(wrong).toEqual([]);
});

// Any f16 is a scale of Q8_0's fragments, too.
it.each(BLOCK_TYPES.filter((type) => type !== 'q8_0'))('%s: a scale that is too large raises a flag', async (type) => {
  const [out, columns] = [16, 256];
  const source = randomBlocks(type, (out * columns) / blockFormat(type).blockElements, new Random(5));
  expect((await throughFragments(type, source, out, columns)).overflow).toBe(1);
});
