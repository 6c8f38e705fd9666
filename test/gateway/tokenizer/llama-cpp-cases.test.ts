import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { detokenize } from '../../../src/gateway/tokenizer/detokenizer.js';
import { createTokenizer } from '../../../src/gateway/tokenizer/tokenizer.js';
import { sharedPath } from '../../support/shared-data.js';
import { metadataOfFile } from './vocabularies.js';

describe.each(['llama-spm', 'llama-bpe', 'qwen2'])("llama.cpp's cases for %s", (name) => {
  const path = sharedPath(`data/vocabs/ggml-vocab-${name}.gguf`);

  it.skipIf(path === undefined)('encode to its ids and decode to the text', () => {
    const tokenizer = createTokenizer(metadataOfFile(path!));
    const inputs = readFileSync(`${path!}.inp`, 'utf8').split('\n__ggml_vocab_test__\n');
    const outputs = readFileSync(`${path!}.out`, 'utf8').split('\n').slice(0, inputs.length);
    expect(inputs).toHaveLength(47);
    inputs.forEach((text, i) => {
      const ids = tokenizer.encode(text, { parseSpecial: false });
      expect([...ids].join(' '), JSON.stringify(text)).toBe(outputs[i]!.trim());
      expect(detokenize(tokenizer, ids)).toBe(text);
    });
  });
});
