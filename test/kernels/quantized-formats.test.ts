import { describe, expect, it } from 'vitest';
import {
  BLOCK_TYPES,
  blockFormat,
  embeddingGatherQuantized,
  matmulQuantized,
} from '../../src/executor/kernels/index.js';
import { HOST_LEVELS, openDevice } from '../../src/executor/load/open-device.js';
import { readBlocks } from './reference/blocks.js';
import { packRow, quantizeQ8 } from './reference/quantize_q8.js';
import { everyExponent, randomBlocks } from './support/blocks.js';
import { launch } from './support/launch.js';
import { kernelsFolder, onEachTarget } from './support/targets.js';
import { fill, Random } from './support/values.js';

onEachTarget('embedding_gather', (target) => {
  it.each(BLOCK_TYPES)('%s: every element is exactly what the format says, rounded to f32 once', async (type) => {
    const { blockElements } = blockFormat(type);
    const random = new Random(5);
    const [vocabulary, blocks, tokens] = [16, target.simulated ? 2 : 24, 16];
    const hidden = blocks * blockElements;
    const table = everyExponent(type, randomBlocks(type, vocabulary * blocks, random));
    const { y } = await target.launch(
      embeddingGatherQuantized(type),
      {
        ...{ table, row_token: Int32Array.from({ length: tokens }, (_, t) => (t * 7) % vocabulary) },
        ...{ row_slot: new Int32Array(tokens), slots: new Int32Array(20), slot_words: 20, hidden },
      },
      { tokens, vocabulary, blocks, slot_count: 1 },
    );
    const { products, minimums } = readBlocks(type, table);
    const expected = Float32Array.from({ length: tokens * hidden }, (_, i) => {
      const at = ((Math.floor(i / hidden) * 7) % vocabulary) * hidden + (i % hidden);
      return products[at]! - minimums[at]!;
    });
    expect(y).toEqual(expected);
  });
});

/** Levels that this machine can run and the build has. */
function levels() {
  return HOST_LEVELS.flatMap((level) => {
    try {
      return [{ level, device: openDevice({ kind: 'host', level, kernels: kernelsFolder }) }];
    } catch {
      return [];
    }
  });
}

describe('on every instruction set level', () => {
  const devices = levels();
  it.each(BLOCK_TYPES)('%s: one token, few and many have the same bits', async (type) => {
    const { blockElements } = blockFormat(type);
    const contract = matmulQuantized(type);
    const random = new Random(17);
    // More than one panel of K, a last group of less than eight blocks, and rows that fill no tile.
    const blocks = blockElements === 256 ? 19 : 8 * 9 + 5;
    const [out, rows, inner] = [43, 139, blocks * blockElements];
    const weight = randomBlocks(type, out * blocks, random);
    const x = Array.from({ length: rows }, () => packRow(quantizeQ8(fill('normal', inner, random))));
    const multiply = async (device: (typeof devices)[number]['device'], part: readonly Uint8Array[]) => {
      const { y } = await launch(
        device,
        contract,
        {
          ...{ weight, x: new Uint8Array(Buffer.concat(part)), y: new Float32Array(part.length * out) },
          ...{ tokens: Int32Array.of(part.length), out, blocks, y_stride: out },
        },
        { rows: part.length },
      );
      return y as Float32Array;
    };
    const all = await multiply(devices[0]!.device, x);
    for (const { level, device } of devices) {
      expect(await multiply(device, x), level).toEqual(all);
      for (const count of [1, 2, 3, 4, 5, 7, 8, 9, 13, 16]) {
        expect(await multiply(device, x.slice(0, count)), `${count} on ${level}`).toEqual(all.slice(0, count * out));
      }
    }
  });
});
