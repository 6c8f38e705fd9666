// The grammar library for measurements: it is a UMD bundle under `type: module`, so it is read as CommonJS.
import { readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import { FileByteSource } from '../../dist/shared/gguf/byte-source.js';
import { readGguf } from '../../dist/shared/gguf/reader.js';

const require = createRequire(import.meta.url);

export function loadGrammarLibrary() {
  const file = require.resolve('@mlc-ai/web-xgrammar');
  const module = new Module(file);
  module._compile(readFileSync(file, 'utf8'), file);
  return module.exports;
}

/** A compiler for the vocabulary of a model with byte-level tokens. */
export async function vocabularyOf(file, library) {
  const { metadata } = readGguf(new FileByteSource(file));
  const tokens = [...metadata.strings('tokenizer.ggml.tokens')];
  const end = metadata.number('tokenizer.ggml.eos_token_id');
  const info = await library.TokenizerInfo.createTokenizerInfo(tokens, 'byte_level', false, tokens.length, [end]);
  return library.GrammarCompiler.createGrammarCompiler(info, false);
}
