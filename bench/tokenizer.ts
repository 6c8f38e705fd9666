/**
 * Tokenizer throughput, beside Hugging Face's `tokenizers` and OpenAI's `tiktoken` where they are installed.
 *
 *     npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
 *     node build/bench/bench/tokenizer.js [--peers bench/peers] [model.gguf ...]
 *
 * Run it from the repository root. `cold` is the first pass of a fresh tokenizer over text it has never seen; `warm` is
 * the best of three more. MB are 10^6 bytes of UTF-8. Everybody gets the same text and must return the same ids.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { FileByteSource } from '../src/lib/gguf/byte-source.js';
import type { GgufMetadata } from '../src/lib/gguf/metadata.js';
import { readGguf } from '../src/lib/gguf/reader.js';
import { createTokenizer, type Tokenizer } from '../src/lib/tokenizer/tokenizer.js';

type Encode = (text: string) => ArrayLike<number> | Promise<ArrayLike<number>>;

const TEXT_UNITS = 1_000_000;
const LLAMA3_EXPRESSION =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const EXPRESSIONS: Readonly<Record<string, string>> = {
  'llama-bpe': LLAMA3_EXPRESSION,
  qwen2: LLAMA3_EXPRESSION.replace('\\p{N}{1,3}', '\\p{N}'),
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { peers: { type: 'string', default: 'bench/peers' } },
});
const models =
  positionals.length > 0
    ? positionals
    : ['llama-bpe', 'qwen2', 'llama-spm'].map((name) => `../shared/data/vocabs/ggml-vocab-${name}.gguf`);

const texts: Readonly<Record<string, string>> = {
  'prose and code': proseAndCode(),
  'one long word': 'incomprehensibilities'.repeat(TEXT_UNITS / 20).slice(0, TEXT_UNITS),
  emoji: '😀🦙🚀'.repeat(TEXT_UNITS / 6),
};

console.log('| model | tokenizer | text | load ms | cold MB/s | warm MB/s | ids |');
console.log('|---|---|---|---|---|---|---|');
for (const path of models) await benchModel(path);

async function benchModel(path: string): Promise<void> {
  const { metadata } = readGguf(new FileByteSource(path));
  const ours = createTokenizer(metadata);
  const makers: [string, () => Encode][] = [
    ['rocmforge', () => rocmforge(metadata)],
    ['tokenizers', () => huggingFace(metadata)],
    ['tiktoken', () => tiktoken(metadata, ours)],
  ];
  const label = metadata.string('tokenizer.ggml.pre') ?? metadata.string('tokenizer.ggml.model');
  for (const [name, make] of makers) {
    for (const [kind, text] of Object.entries(texts)) {
      try {
        console.log(`| ${label} | ${name} | ${kind} | ${await throughput(make, ours, text)} |`);
      } catch (error) {
        console.log(`| ${label} | ${name} | ${kind} | ${reasonOf(error)} | - | - | - |`);
        break;
      }
    }
  }
}

/** tiktoken panics inside of WebAssembly on a word of a megabyte, and stays broken. */
function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0]!;
}

/** `load | cold | warm | ids` */
async function throughput(make: () => Encode, ours: Tokenizer, text: string): Promise<string> {
  const beforeLoad = performance.now();
  const encode = make();
  const load = performance.now() - beforeLoad;
  const megabytes = Buffer.byteLength(text) / 1e6;
  let ids: ArrayLike<number> = [];
  const rates: number[] = [];
  for (let pass = 0; pass < 4; pass++) {
    const start = performance.now();
    ids = await encode(text);
    rates.push((megabytes / (performance.now() - start)) * 1000);
  }
  const expected = ours.encode(text, { parseSpecial: false });
  const agrees = ids.length === expected.length && expected.every((id, i) => id === ids[i]);
  const [cold = 0, ...warm] = rates;
  return `${load.toFixed(0)} | ${cold.toFixed(2)} | ${Math.max(...warm).toFixed(2)} | ${ids.length}${agrees ? '' : ' (differ from ours)'}`;
}

function rocmforge(metadata: GgufMetadata): Encode {
  const tokenizer = createTokenizer(metadata);
  return (text) => tokenizer.encode(text, { parseSpecial: false });
}

function peer<T>(name: string): T {
  const require = createRequire(resolve(values.peers, 'package.json'));
  try {
    return require(name) as T;
  } catch {
    throw new Error(`not installed in ${values.peers}`);
  }
}

function expressionOf(metadata: GgufMetadata): string {
  const pre = metadata.string('tokenizer.ggml.pre') ?? '';
  const expression = EXPRESSIONS[pre];
  if (expression === undefined) throw new Error(`no expression for "${pre}" here`);
  return expression;
}

function huggingFace(metadata: GgufMetadata): Encode {
  interface Peer {
    Tokenizer: { fromString(json: string): { encode(text: string): Promise<{ getIds(): number[] }> } };
  }
  const { Tokenizer } = peer<Peer>('tokenizers');
  const tokens = metadata.strings('tokenizer.ggml.tokens')!;
  const tokenizer = Tokenizer.fromString(
    JSON.stringify({
      version: '1.0',
      pre_tokenizer: {
        type: 'Sequence',
        pretokenizers: [
          { type: 'Split', pattern: { Regex: expressionOf(metadata) }, behavior: 'Isolated', invert: false },
          { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
        ],
      },
      model: {
        type: 'BPE',
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges: metadata.strings('tokenizer.ggml.merges')!.map((merge) => {
          const cut = merge.indexOf(' ', 1);
          return [merge.slice(0, cut), merge.slice(cut + 1)];
        }),
        ignore_merges: metadata.string('tokenizer.ggml.pre') === 'llama-bpe',
      },
    }),
  );
  return async (text) => (await tokenizer.encode(text)).getIds();
}

function tiktoken(metadata: GgufMetadata, ours: Tokenizer): Encode {
  interface Peer {
    Tiktoken: new (
      ranks: string,
      special: Record<string, number>,
      expression: string,
    ) => { encode_ordinary(text: string): Uint32Array };
  }
  const { Tiktoken } = peer<Peer>('tiktoken');
  const expression = expressionOf(metadata);
  const ranks: string[] = [];
  for (let id = 0; id < ours.vocabularySize; id++) {
    if (!ours.isSpecial(id)) ranks.push(Buffer.from(ours.tokenBytes(id)).toString('base64'));
  }
  const encoder = new Tiktoken(`! 0 ${ranks.join(' ')}`, {}, expression);
  return (text) => encoder.encode_ordinary(text);
}

/** A megabyte of documentation and source that every checkout has: what the installed packages ship. */
function proseAndCode(): string {
  let text = '';
  for (const name of readdirSync('node_modules', { recursive: true, encoding: 'utf8' }).sort()) {
    if (text.length >= TEXT_UNITS) break;
    if (/(\.md|\.d\.ts)$/.test(name)) text += readFileSync(join('node_modules', name), 'utf8').slice(0, 40_000);
  }
  // A cut may have left half a character.
  return text.slice(0, TEXT_UNITS).replaceAll(/\p{Surrogate}/gu, ' ');
}
