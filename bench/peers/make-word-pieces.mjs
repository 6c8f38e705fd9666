/**
 * Adds llama.cpp's ids (through node-llama-cpp) to the texts of make-word-pieces.py where they differ from Hugging Face's, by a file
 * of their vocabulary. Run from the repository root after `npm run build`.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { writeGguf } from '../../dist/lib/gguf/writer.js';

const { values: args, positionals } = parseArgs({
  options: { out: { type: 'string', short: 'o' } },
  allowPositionals: true,
});
if (!args.out || positionals.length !== 1) {
  console.error('usage: make-word-pieces.mjs CASES.json -o OUT.json');
  process.exit(2);
}
const made = JSON.parse(readFileSync(positionals[0], 'utf8'));
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-words-'));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const string = (value) => ({ type: 'string', value });
const number = (value) => ({ type: 'u32', value });
let differing = 0;
for (const [name, lowercase] of [
  ['uncased', true],
  ['cased', false],
]) {
  const file = path.join(folder, `${name}.gguf`);
  writeGguf(
    file,
    {
      'general.architecture': string('bert'),
      'bert.context_length': number(512),
      'bert.embedding_length': number(64),
      'bert.block_count': number(1),
      'bert.feed_forward_length': number(128),
      'bert.attention.head_count': number(4),
      'bert.attention.layer_norm_epsilon': { type: 'f32', value: 1e-5 },
      'tokenizer.ggml.model': string('bert'),
      'tokenizer.ggml.tokens': { type: 'strings', value: made.tokens },
      'tokenizer.ggml.token_type': { type: 'i32s', value: made.tokens.map((_, id) => (id < made.special ? 3 : 1)) },
      'tokenizer.ggml.token_type_count': number(2),
      'tokenizer.ggml.bos_token_id': number(2),
      'tokenizer.ggml.seperator_token_id': number(3),
      'tokenizer.ggml.unknown_token_id': number(1),
      'tokenizer.ggml.normalizer.lowercase': { type: 'bool', value: lowercase },
    },
    [],
  );
  const model = await llama.loadModel({ modelPath: file, vocabOnly: true });
  for (const one of made.cases) {
    const ids = [...model.tokenize(one.text, false)];
    if (String(ids) === String(one[name])) continue;
    one[`${name}ByLlamaCpp`] = ids;
    differing += 1;
  }
}
await llama.dispose();
writeFileSync(
  args.out,
  `{"source":${JSON.stringify(`${made.source}; llama.cpp through node-llama-cpp 3.22.1`)},"special":${made.special},"tokens":${JSON.stringify(made.tokens)},"cases":[\n${made.cases.map((one) => JSON.stringify(one)).join(',\n')}\n]}\n`,
);
console.log(`${made.cases.length} texts, of which llama.cpp has other ids ${differing} times`);
