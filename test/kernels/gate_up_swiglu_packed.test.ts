import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  gateUpSwigluPacked as contractOf,
  matmulPacked,
  PACKED_TYPES,
  packedRowBytes,
  Q8_BLOCK,
  swigluQuantize,
} from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { gateUpSwigluPacked } from './reference/gate_up_swiglu_packed.js';
import { smallBlocks } from './support/blocks.js';
import { activations, expectQuantized, packedWidth, repacked } from './support/packed.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('gate_up_swiglu_packed', (target) => {
  it.each(PACKED_TYPES)('%s: is two matmul_packed and swiglu_quantize in one, to the bit', (type) =>
    target.check(
      fc.tuple(
        fc.record({
          rows: size(target.simulated ? 9 : 12),
          ffnBlocks: fc.integer({ min: 1, max: 2 }),
          missing: fc.nat(1),
        }),
        fc.oneof(fc.integer({ min: 1, max: 6 }), fc.constantFrom(17, 33)),
        fc.tuple(
          fills('normal', 'zeros', 'ones', 'denormal'),
          seed,
          fc.constantFrom('one' as const, 'several' as const),
        ),
      ),
      async ([{ rows, ffnBlocks, missing }, units, [kind, start, form]]) => {
        const random = new Random(start);
        const { fileBlocks, inner } = packedWidth(type, units);
        const [ffn, blocks, row_bytes] = [ffnBlocks * Q8_BLOCK, inner / Q8_BLOCK, packedRowBytes(type, inner)];
        const count = Math.max(0, rows - missing);
        const tokens = Int32Array.of(count);
        const [gate, up] = [0, 1].map(() => smallBlocks(type, ffn * fileBlocks, random));
        const { packed: x, meaning } = activations(fill(kind, rows * inner, random), inner);
        const weights = { gate: repacked(type, gate!, ffn), up: repacked(type, up!, ffn) };
        const yBytes = ffn * 1.25;
        const { y } = await target.launch(
          contractOf(type, form),
          { ...weights, x, y: new Uint8Array(rows * yBytes).fill(77), tokens, ffn, blocks },
          { rows, row_bytes, ffn_blocks: ffnBlocks },
        );
        expect((y as Uint8Array).subarray(count * yBytes).every((byte) => byte === 77)).toBe(true);
        if (count === 0) return;
        const expected = gateUpSwigluPacked(
          ...([readBlocks(type, gate!), readBlocks(type, up!)] as const),
          ...([meaning.subarray(0, count * inner), ffn, inner, 2 * blocks + 70] as const),
        );
        const quantized = (y as Uint8Array).slice(0, count * yBytes);
        expectQuantized(quantized, expected.values, ffn, (i) => expected.magnitudes[i]!);

        const gate_up = new Float32Array(count * 2 * ffn);
        for (const [i, weight] of [weights.gate, weights.up].entries()) {
          const product = await target.launch(
            matmulPacked(type),
            {
              ...{ weight, x, y: new Float32Array(count * ffn), tokens },
              ...{ out: ffn, blocks, y_stride: ffn, accumulate: 0 },
            },
            { rows: count, row_bytes },
          );
          for (let t = 0; t < count; t++) {
            gate_up.set((product.y as Float32Array).subarray(t * ffn, (t + 1) * ffn), (2 * t + i) * ffn);
          }
        }
        const unfused = await target.launch(swigluQuantize, { gate_up, ffn }, { rows: count, blocks: ffnBlocks });
        expect(quantized).toEqual(unfused.y);
      },
      Math.ceil(target.runs / 8),
    ),
  );
});
