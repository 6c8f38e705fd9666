import fc from 'fast-check';
import { expect, it } from 'vitest';
import { blockFormat, repack as contractOf, PACKED_TYPES, packedRowBytes } from '../../src/executor/kernels/index.js';
import { repackRow } from './reference/repack.js';
import { randomBlocks } from './support/blocks.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

onEachTarget('repack', (target) => {
  it.each(PACKED_TYPES)('%s: lays planes out as defined, and leaves padding alone', (type) => {
    const { blockElements, blockBytes } = blockFormat(type);
    return target.check(
      fc.tuple(size(20), fc.integer({ min: 1, max: 9 }), seed),
      async ([out, widths, start]) => {
        const blocks = blockElements === 256 ? widths : 2 * widths;
        const row_bytes = packedRowBytes(type, blocks * blockElements);
        const source = randomBlocks(type, out * blocks, new Random(start));
        const result = await target.launch(
          contractOf(type),
          { source, target: new Uint8Array(out * row_bytes), out, blocks },
          { row_bytes },
        );
        const rows = Array.from({ length: out }, (_, n) =>
          repackRow(type, source.subarray(n * blocks * blockBytes, (n + 1) * blocks * blockBytes)),
        );
        expect(Buffer.from(result.target as Uint8Array).equals(Buffer.concat(rows))).toBe(true);
      },
      Math.ceil(target.runs / 4),
    );
  });
});
