import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GGMLQuantizationType, gguf } from '@huggingface/gguf';
import { afterAll, expect, test } from 'vitest';
import { FileByteSource } from '../../../src/lib/gguf/byte-source.js';
import type { GgufValue } from '../../../src/lib/gguf/metadata.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { tinyLlama, typed } from '../../support/gguf-builder.js';
import { sharedPath } from '../../support/shared-data.js';

const folder = mkdtempSync(join(tmpdir(), 'rocmforge-oracle-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** The common form of both readers' values: the oracle has bigints for 64-bit integers and plain arrays for all arrays. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  // The oracle decodes with a TextDecoder, which swallows a leading byte order mark: token 30143 of llama-spm becomes "".
  if (typeof value === 'string') return value.replace(/^\ufeff/, '');
  if (Array.isArray(value)) return value.map(plain);
  return ArrayBuffer.isView(value) ? Array.from(value as unknown as ArrayLike<number | bigint>, plain) : value;
}

/** `toEqual` is slow on half a million strings; their JSON tells as much. */
const text = (value: unknown) => JSON.stringify(plain(value));

async function compareWithHuggingFace(path: string): Promise<void> {
  const theirs = await gguf(path, { allowLocalFile: true });
  const source = new FileByteSource(path);
  const ours = readGguf(source);
  source.close();

  const { version, tensor_count, kv_count, ...expected } = theirs.metadata as unknown as Record<string, unknown>;
  expect(ours.version).toBe(version);
  expect(ours.tensors.size).toBe(Number(tensor_count));
  expect([...ours.metadata.keys()]).toHaveLength(Number(kv_count));
  expect([...ours.metadata.keys()].sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    const our: GgufValue | undefined = ours.metadata.get(key);
    expect(text(our) === text(value), `metadata key ${key} differs`).toBe(true);
  }

  expect(ours.dataOffset).toBe(Number(theirs.tensorDataOffset));
  expect([...ours.tensors.values()].map(({ bytes, part, ...rest }) => rest)).toEqual(
    theirs.tensorInfos.map(({ name, shape, dtype, offset }) => ({
      name,
      type: GGMLQuantizationType[dtype],
      dims: shape.map(Number),
      offset: Number(theirs.tensorDataOffset + offset),
    })),
  );
}

test('a built file reads as Hugging Face reads it', async () => {
  const path = join(folder, 'built.gguf');
  const builder = tinyLlama({
    nested: typed.array(typed.strings(['x', 'Ġé']), typed.array(typed.u8(1))),
    big: typed.u64(2n ** 40n),
    negative: typed.i64(-5n),
    double: typed.f64(0.1),
    flag: false,
  });
  writeFileSync(path, builder.build());
  await compareWithHuggingFace(path);
});

const FILES = [
  'models/stories260K-f32',
  'models/tiny-llama-q4_k_m',
  'models/tiny-llama3-q8_0',
  'models/tiny-qwen2-q8_0',
  'vocabs/ggml-vocab-llama-bpe',
  'vocabs/ggml-vocab-llama-spm',
  'vocabs/ggml-vocab-qwen2',
];
for (const name of FILES) {
  const path = sharedPath(`data/${name}.gguf`);
  test.skipIf(path === undefined)(`${name} reads as Hugging Face reads it`, () => compareWithHuggingFace(path!));
}
