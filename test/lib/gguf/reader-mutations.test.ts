import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryByteSource } from '../../../src/lib/gguf/byte-source.js';
import { GgufError } from '../../../src/lib/gguf/error.js';
import { readModelParameters } from '../../../src/lib/gguf/model-parameters.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { CountingSource } from '../../support/counting-source.js';
import { tinyLlama, typed } from '../../support/gguf-builder.js';
import { runs } from '../../support/run-size.js';
import { sharedPath } from '../../support/shared-data.js';

/** Damage is described by fractions of the header, so that it shrinks well and fits files of any size. */
type Damage =
  | { kind: 'flip'; at: number; mask: number }
  | { kind: 'truncate'; at: number }
  | { kind: 'splice'; at: number; value: bigint };

const fraction = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const interestingU64 = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.bigInt({ min: 0n, max: 64n }),
  fc.integer({ min: 0, max: 63 }).map((bit) => 2n ** BigInt(bit)),
);
const damage: fc.Arbitrary<Damage> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('flip'), at: fraction, mask: fc.integer({ min: 1, max: 255 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('truncate'), at: fraction }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('splice'), at: fraction, value: interestingU64 }) },
);

function damaged(bytes: Uint8Array, headerBytes: number, damages: readonly Damage[]): Uint8Array {
  let copy = Buffer.from(bytes);
  for (const { at, ...how } of damages) {
    const index = Math.floor(at * Math.min(headerBytes, copy.length));
    if (how.kind === 'truncate') copy = copy.subarray(0, index);
    else if (how.kind === 'flip' && index < copy.length) copy[index]! ^= how.mask;
    else if (how.kind === 'splice' && index + 8 <= copy.length) copy.writeBigUInt64LE(how.value, index);
  }
  return copy;
}

/** A parse or a GgufError, and nothing else; what was parsed stays inside of the file, and was read about once. */
function readDamaged(bytes: Uint8Array): void {
  const source = new CountingSource(new MemoryByteSource(bytes, 'damaged.gguf'));
  try {
    const file = readGguf(source);
    for (const { offset, bytes: length } of file.tensors.values())
      expect(offset + length).toBeLessThanOrEqual(file.size);
    readModelParameters(file);
  } catch (error) {
    expect(error).toBeInstanceOf(GgufError);
    expect((error as Error).message.length).toBeLessThan(200_000);
  }
  expect(source.bytes).toBeLessThanOrEqual(4 * bytes.length + (1 << 20));
}

test('a damaged small file is parsed or refused, without many reads or large allocations', () => {
  const builder = tinyLlama({
    nested: typed.array(typed.array(typed.u8(1), typed.u8(2)), typed.array(typed.strings(['x', 'y']))),
    flags: typed.array(typed.bool(true), typed.bool(false)),
    wide: typed.array(typed.u64(1n), typed.u64(2n ** 60n)),
  });
  const bytes = builder.build();
  const { dataOffset } = builder.read();
  const before = process.memoryUsage();
  fc.assert(
    fc.property(fc.array(damage, { minLength: 1, maxLength: 4 }), (damages) => {
      readDamaged(damaged(bytes, dataOffset, damages));
    }),
    { numRuns: runs(4_000) },
  );
  const after = process.memoryUsage();
  expect(after.heapTotal + after.external - before.heapTotal - before.external).toBeLessThan(256 << 20);
});

test('every single byte of a small header may be wrong', () => {
  const builder = tinyLlama({ 'tokenizer.ggml.tokens': ['a', 'b'], 'tokenizer.ggml.scores': undefined });
  const bytes = Buffer.from(builder.build());
  for (let index = 0; index < builder.read().dataOffset; index++) {
    const original = bytes[index]!;
    for (const value of [0, 1, 0x7f, 0xff, original ^ 0x80]) {
      bytes[index] = value;
      readDamaged(bytes);
    }
    bytes[index] = original;
  }
});

const MODELS = ['stories260K-f32', 'tiny-llama-q4_k_m', 'tiny-llama3-q8_0', 'tiny-qwen2-q8_0'];
for (const model of MODELS) {
  const path = sharedPath(`data/models/${model}.gguf`);
  test.skipIf(path === undefined)(`a damaged ${model} is parsed or refused`, () => {
    const bytes = readFileSync(path!);
    const headerBytes = readGguf(new MemoryByteSource(bytes)).dataOffset;
    fc.assert(
      fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), fc.boolean(), (damages, atTheFront) => {
        // Most bytes of a real header are vocabulary; half of the damage goes to the keys and counts before it.
        readDamaged(damaged(bytes, atTheFront ? 1_200 : headerBytes, damages));
      }),
      { numRuns: runs(headerBytes < 1 << 20 ? 100 : 12, 3) },
    );
  });
}
