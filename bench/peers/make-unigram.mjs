/**
 * Adds llama.cpp's ids (through node-llama-cpp) to the texts of make-unigram.py, by files of their vocabulary with each kind of white
 * space, and those of random texts by random vocabularies. Run from the repository root after `npm run build`.
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
  console.error('usage: make-unigram.mjs CASES.json -o OUT.json');
  process.exit(2);
}
const made = JSON.parse(readFileSync(positionals[0], 'utf8'));
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-pieces-'));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const string = (value) => ({ type: 'string', value });
const number = (value) => ({ type: 'u32', value });
const bool = (value) => ({ type: 'bool', value });

/** Models of the vocabulary for each way to treat white space. */
async function opened(name, { tokens, types, scores, charsmap, prefixes, merges, ids }) {
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
      'tokenizer.ggml.model': string('t5'),
      'tokenizer.ggml.pre': string('default'),
      'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
      'tokenizer.ggml.token_type': { type: 'i32s', value: types },
      'tokenizer.ggml.scores': { type: 'f32s', value: scores },
      ...(charsmap && {
        'tokenizer.ggml.precompiled_charsmap': { type: 'u8s', value: [...Buffer.from(charsmap, 'base64')] },
      }),
      'tokenizer.ggml.token_type_count': number(1),
      'tokenizer.ggml.bos_token_id': number(ids.bos),
      'tokenizer.ggml.eos_token_id': number(ids.eos),
      'tokenizer.ggml.unknown_token_id': number(ids.unknown),
      'tokenizer.ggml.add_space_prefix': bool(prefixes),
      'tokenizer.ggml.remove_extra_whitespaces': bool(merges),
    },
    [],
  );
  return llama.loadModel({ modelPath: file, vocabOnly: true });
}

const KINDS = [
  [true, true],
  [true, false],
  [false, true],
  [false, false],
];
const kindOf = ([prefixes, merges]) => `${prefixes ? 'prefix' : 'plain'}-${merges ? 'merged' : 'kept'}`;
const IDS = { bos: 1, eos: 2, unknown: 0 };

for (const kind of KINDS) {
  const [prefixes, merges] = kind;
  const model = await opened(kindOf(kind), { ...made, prefixes, merges, ids: IDS });
  const isUsual = prefixes && merges;
  for (const one of isUsual ? made.cases : made.cases.slice(0, made.fixed))
    one.ids = { ...one.ids, [kindOf(kind)]: [...model.tokenize(one.text, false)] };
}
let differing = 0;
for (const one of made.cases) {
  if (String(one.bySentencePiece) === String(one.ids['prefix-merged'])) delete one.bySentencePiece;
  else differing += 1;
}

/** xorshift32. */
let state = 2_463_534_242;
const draw = (bound) => {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % bound;
};
const NORMAL = 1;
const [USER_DEFINED, UNUSED] = [4, 5];
const LETTERS = ['a', 'b', 'é', '日', '😀', '▁', '▁'];
const drawn = (letters, longest) =>
  Array.from({ length: 1 + draw(longest) }, () => letters[draw(letters.length)]).join('');
const random = [];
for (let round = 0; round < 6; round++) {
  // Vocabularies with and without tokens across words, with scores of which many are equal, and with two letters that are no token.
  const letters = LETTERS.slice(0, 5);
  const texts = new Set(['a', '日', ...(round % 2 ? ['▁'] : [])]);
  while (texts.size < 60) texts.add(round < 3 ? (draw(2) ? '▁' : '') + drawn(letters, 4) : drawn(LETTERS, 4));
  const tokens = ['<unk>', '<s>', '</s>', ...texts];
  const types = tokens.map((_, id) => (id < 3 ? [2, 3, 3][id] : ([UNUSED, USER_DEFINED][draw(25)] ?? NORMAL)));
  const scores = tokens.map((_, id) =>
    id < 3 ? 0 : round % 3 === 0 ? -1 - draw(6) : Math.fround(-draw(1 << 20) / 65_537),
  );
  const kind = KINDS[round % 4];
  const [prefixes, merges] = kind;
  const vocabulary = { tokens, types, scores, prefixes, merges };
  const model = await opened(`random-${round}`, { ...vocabulary, ids: IDS });
  const cases = Array.from({ length: 80 }, () => drawn([...letters, 'c', 'ø', ' ', ' ', '▁'], 40));
  random.push({ ...vocabulary, cases: cases.map((text) => ({ text, ids: [...model.tokenize(text, false)] })) });
}
const { cases, fixed: _, ...vocabulary } = made;
const source = `${made.source}; llama.cpp through node-llama-cpp 3.22.1`;
const lines = (list) => list.map((one) => JSON.stringify(one)).join(',\n');
const head = JSON.stringify({ ...vocabulary, source }).slice(0, -1);
writeFileSync(args.out, `${head},"cases":[\n${lines(cases)}\n],"random":[\n${lines(random)}\n]}\n`);
console.log(`${cases.length} texts, of which SentencePiece has other ids ${differing} times`);
await llama.dispose();
