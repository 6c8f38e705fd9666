import { expect, test } from 'vitest';
import { FileByteSource, MemoryByteSource } from '../../../src/shared/gguf/byte-source.js';
import { readGguf } from '../../../src/shared/gguf/reader.js';
import { tinyLlama } from '../../support/gguf-builder.js';
import { sharedPath } from '../../support/shared-data.js';

const STRINGS = 400_000;
const words = Array.from({ length: STRINGS }, (_, id) => `Ġword ${id}`);

const encodedWords = Buffer.from(words.join(''));

/** The yardstick: decoding as many short strings from one buffer, which any reader has to do at least. */
function decodeAll(): string[] {
  return words.map((_, id) => encodedWords.toString('utf8', id * 8, id * 8 + 12));
}

/** A reader that is slower than this has lost its fast path; 250 ms on a machine with a 40 ms yardstick. */
const MOST_YARDSTICKS = 6;

/** How many yardsticks `work` takes; the fastest of several runs of both, taken in turns, so that load hits both. */
function yardsticks(work: () => unknown): number {
  let work_ms = Number.POSITIVE_INFINITY;
  let yardstick_ms = Number.POSITIVE_INFINITY;
  for (let run = 0; run < 6; run++) {
    work_ms = Math.min(work_ms, milliseconds(work));
    yardstick_ms = Math.min(yardstick_ms, milliseconds(decodeAll));
  }
  console.log(`${work_ms.toFixed(0)} ms, yardstick ${yardstick_ms.toFixed(0)} ms`);
  return work_ms / yardstick_ms;
}

function milliseconds(work: () => unknown): number {
  const started = performance.now();
  work();
  return performance.now() - started;
}

test('400,000 vocabulary strings take at most six times as long as decoding that many strings', () => {
  const bytes = tinyLlama({
    'tokenizer.ggml.tokens': words,
    'tokenizer.ggml.scores': undefined,
    'llama.vocab_size': STRINGS,
  }).build();
  expect(yardsticks(() => readGguf(new MemoryByteSource(bytes)))).toBeLessThan(MOST_YARDSTICKS);
});

for (const name of ['ggml-vocab-llama-bpe', 'ggml-vocab-qwen2']) {
  const path = sharedPath(`data/vocabs/${name}.gguf`);
  test.skipIf(path === undefined)(`${name} takes at most six times as long as decoding 400,000 strings`, () => {
    const read = () => {
      const source = new FileByteSource(path!);
      readGguf(source);
      source.close();
    };
    expect(yardsticks(read)).toBeLessThan(MOST_YARDSTICKS);
  });
}
