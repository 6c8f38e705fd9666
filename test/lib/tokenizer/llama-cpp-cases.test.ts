import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { detokenize } from '../../../src/lib/tokenizer/detokenizer.js';
import { createTokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
import { sharedPath } from '../../support/shared-data.js';
import { metadataOfFile } from './vocabularies.js';

const folder = sharedPath('data/vocabs');
const names = (folder === undefined ? [] : readdirSync(folder)).filter(
  (name) => name.endsWith('.gguf') && existsSync(join(folder!, `${name}.out`)),
);

describe.skipIf(folder === undefined)("llama.cpp's cases", () => {
  it.each(names)('encode to its ids and decode to the text: %s', (name) => {
    const path = join(folder!, name);
    const tokenizer = createTokenizer(metadataOfFile(path));
    const inputs = readFileSync(`${path}.inp`, 'utf8').split('\n__ggml_vocab_test__\n');
    const outputs = readFileSync(`${path}.out`, 'utf8').split('\n').slice(0, inputs.length);
    expect(inputs).toHaveLength(47);
    inputs.forEach((text, i) => {
      const ids = tokenizer.encode(text, { parseSpecial: false });
      expect([...ids].join(' '), JSON.stringify(text)).toBe(outputs[i]!.trim());
      expect(detokenize(tokenizer, ids)).toBe(text);
    });
  });
});
