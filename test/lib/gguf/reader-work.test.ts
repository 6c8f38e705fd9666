import { expect, test } from 'vitest';
import { type ByteSource, FileByteSource, MemoryByteSource } from '../../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { CountingSource } from '../../support/counting-source.js';
import { tinyLlama } from '../../support/gguf-builder.js';
import { sharedPath } from '../../support/shared-data.js';

const STRINGS = 400_000;
const words = Array.from({ length: STRINGS }, (_, id) => `Ġword ${id}`);

/** A header is read in large pieces, and each byte of it about once, however many values it has. */
function expectFewReads(source: ByteSource): void {
  const counting = new CountingSource(source);
  const { dataOffset } = readGguf(counting);
  console.log(`${source.name}: ${counting.reads} reads, ${counting.bytes} bytes of a header of ${dataOffset}`);
  expect(counting.reads).toBeLessThanOrEqual(10 + dataOffset / (64 << 10));
  expect(counting.bytes).toBeLessThanOrEqual(2 * dataOffset + (2 << 20));
}

// bench/reader.ts measures the time.
test('400,000 vocabulary strings are read in large pieces', () => {
  const bytes = tinyLlama({
    'tokenizer.ggml.tokens': words,
    'tokenizer.ggml.scores': undefined,
    'llama.vocab_size': STRINGS,
  }).build();
  expectFewReads(new MemoryByteSource(bytes));
});

for (const name of ['ggml-vocab-llama-bpe', 'ggml-vocab-qwen2']) {
  const path = sharedPath(`data/vocabs/${name}.gguf`);
  test.skipIf(path === undefined)(`${name} is read in large pieces`, () => {
    const source = new FileByteSource(path!);
    expectFewReads(source);
    source.close();
  });
}
