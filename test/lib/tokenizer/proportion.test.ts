import { describe, expect, it } from 'vitest';
import { MergeTable } from '../../../src/lib/tokenizer/merge-table.js';
import { forEachPiece, preTokenizerNamed } from '../../../src/lib/tokenizer/pre-tokenizer.js';
import { createTokenizer, type Tokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
import { sharedPath } from '../../support/shared-data.js';
import { metadataOfFile, smallBpe, smallSpm, tokenizerOf } from './vocabularies.js';

const KIB = 1024;

/** Texts that tempt a tokenizer to look at everything again and again. */
const INPUTS: Readonly<Record<string, (units: number) => string>> = {
  'one word without spaces': (units) => 'incomprehensibilities'.repeat(Math.ceil(units / 21)).slice(0, units),
  'a letter and a space in turn': (units) => ' a'.repeat(units / 2),
  'one kind of white space': (units) => ' '.repeat(units),
  'white space that does not end it': (units) => `©${' '.repeat(units - 2)}©`,
  'line ends': (units) => '\r\n'.repeat(units / 2),
  apostrophes: (units) => "'".repeat(units),
  digits: (units) => '7'.repeat(units),
  capitals: (units) => 'A'.repeat(units),
  marks: (units) => '\u0301'.repeat(units),
  emoji: (units) => '😀🦙'.repeat(units / 4),
};

/** Number of lookups of merges, which is the work of merging but for the logarithm of a heap. */
function lookups(tokenizer: Tokenizer, text: string): number {
  let count = 0;
  const find = MergeTable.prototype.find;
  MergeTable.prototype.find = function (left, right) {
    count++;
    return find.call(this, left, right);
  };
  try {
    tokenizer.encode(text, { parseSpecial: false });
  } finally {
    MergeTable.prototype.find = find;
  }
  return count;
}

const shared = (name: string) => {
  const path = sharedPath(`data/vocabs/ggml-vocab-${name}.gguf`);
  return path === undefined ? [] : [[name, () => createTokenizer(metadataOfFile(path))] as const];
};
const TOKENIZERS = [
  ['a small SentencePiece vocabulary', () => tokenizerOf(smallSpm())] as const,
  ['a small byte-level vocabulary', () => tokenizerOf(smallBpe())] as const,
  ...shared('llama-spm'),
  ...shared('llama-bpe'),
];

describe.each(TOKENIZERS)('merging with %s', (_name, make) => {
  const tokenizer = make();
  it.each(Object.keys(INPUTS))('takes work in proportion to the text: %s', (input) => {
    const [quarter, whole] = [16, 64].map((kib) => lookups(tokenizer, INPUTS[input]!(kib * KIB))) as [number, number];
    // Each byte is a symbol, each merge looks two neighbours up. Words that were met are not merged again.
    expect(whole).toBeLessThanOrEqual(64 * KIB * 3 * 3);
    expect(whole).toBeLessThanOrEqual(4.1 * quarter + 1000);
  });
});

/** A text that counts how often its characters are read. */
class CountingText {
  reads = 0;

  constructor(private readonly text: string) {}

  get length(): number {
    return this.text.length;
  }

  charCodeAt(at: number): number {
    this.reads++;
    return this.text.charCodeAt(at);
  }

  codePointAt(at: number): number | undefined {
    this.reads++;
    return this.text.codePointAt(at);
  }
}

/** One of each family. */
const NAMES = [
  ...['gpt-2', 'starcoder', 'llama-bpe', 'qwen2', 'qwen35', 'jais-2', 'seed-coder', 'gpt-4o', 'tekken'],
  ...['deepseek-llm', 'deepseek-coder', 'deepseek-v3', 'falcon', 'bloom', 'viking', 'default'],
];

describe.each(NAMES)('the pre-tokenizer %s', (name) => {
  it.each(Object.keys(INPUTS))('reads a text a bounded number of times: %s', (input) => {
    const reads = [16, 64].map((kib) => {
      const text = new CountingText(INPUTS[input]!(kib * KIB));
      // The scanners that look characters up in a set by index find none in it, and go on to the next rule.
      forEachPiece(text as unknown as string, preTokenizerNamed(name).rules, () => undefined);
      return text.reads;
    }) as [number, number];
    expect(reads[1] / (128 * KIB)).toBeLessThanOrEqual(40);
    expect(reads[1]).toBeLessThanOrEqual(4.1 * reads[0] + 1000);
  });
});
