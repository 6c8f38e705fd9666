// Cost of token masks of constrained answers: preparing grammars, masks along texts, and memory.
//   node bench/masks.mjs --model vocabulary.gguf [--bench maskbench/data] [--schemas 500]
// Without --bench a few typical schemas are measured. All times are of processors. Texts are the valid instances of each schema, tokenized greedily by the trie of
// the vocabulary; where an instance leaves the grammar (white space, order), its trace ends there.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { grammarOf } from '../dist/gateway/constraints/grammar-of.js';
import { maskAddon } from '../dist/gateway/matching/mask-addon.js';
import { vocabularyOf } from '../dist/gateway/matching/vocabulary.js';
import { FileByteSource } from '../dist/lib/gguf/byte-source.js';
import { readGguf } from '../dist/lib/gguf/reader.js';
import { grammarBuffer } from '../dist/lib/grammar/grammar-buffer.js';
import { createTokenizer } from '../dist/lib/tokenizer/tokenizer.js';
import { benchArguments } from './arguments.mjs';

const { values: options } = benchArguments(import.meta.url, {
  options: { model: { type: 'string' }, bench: { type: 'string' }, schemas: { type: 'string', default: '500' } },
});

const NESTED = {
  type: 'object',
  properties: {
    id: { type: 'string', pattern: '^[A-Z]{3}-[0-9]{4}$' },
    kind: { enum: ['book', 'film', 'song'] },
    price: { type: 'number', minimum: 0, maximum: 1000 },
    created: { type: 'string', format: 'date-time' },
    tags: { type: 'array', items: { type: 'string', maxLength: 20 }, maxItems: 10 },
    author: {
      type: 'object',
      properties: { name: { type: 'string' }, email: { type: 'string', format: 'email' } },
      required: ['name'],
      additionalProperties: false,
    },
  },
  required: ['id', 'kind', 'price', 'created', 'tags', 'author'],
  additionalProperties: false,
};
const NESTED_VALUE = {
  id: 'ABC-1234',
  kind: 'film',
  price: 12.5,
  created: '2026-11-25T10:00:00Z',
  tags: ['a tale of two cities', 'x'],
  author: { name: 'Ada "the first" Lovelace, née Byron', email: 'ada@example.com' },
};
const optional = (count) => ({
  type: 'object',
  properties: Object.fromEntries(Array.from({ length: count }, (_, i) => [`field${i}`, { type: 'string' }])),
});
const TYPICAL = [
  {
    name: 'two fields',
    schema: { type: 'object', properties: { a: { type: 'string' }, b: { type: 'integer' } }, required: ['a', 'b'] },
    tests: [{ data: { a: 'hello world', b: 12 }, valid: true }],
  },
  { name: 'nested', schema: NESTED, tests: [{ data: NESTED_VALUE, valid: true }] },
  {
    name: '60 optional',
    schema: optional(60),
    tests: [{ data: { field3: 'x', field59: 'hello there' }, valid: true }],
  },
  {
    name: 'maxLength 80',
    schema: { type: 'string', maxLength: 80 },
    tests: [{ data: 'word '.repeat(16), valid: true }],
  },
  { name: 'any JSON', schema: {}, tests: [{ data: { a: [1, { b: 'text', c: null }] }, valid: true }] },
];

/** The first files by the hash of their name, as in `peers/json-schema-suites.mjs`. */
function sample(folder, count) {
  const hash = (name) => createHash('sha256').update(name).digest('hex');
  const names = readdirSync(folder).sort((a, b) => (hash(a) < hash(b) ? -1 : 1));
  const found = [];
  for (const name of names) {
    const { schema, tests } = JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
    if (tests?.length > 0) found.push({ name, schema, tests });
    if (found.length === count) break;
  }
  return found;
}

const quantiles = (numbers) => {
  const sorted = Float64Array.from(numbers).sort();
  return [0.5, 0.9, 0.99, 0.999, 1]
    .map((share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]?.toFixed(3))
    .join(' / ');
};
const rssMb = () => Math.round(process.memoryUsage.rss() / 1e6);

const { metadata } = readGguf(new FileByteSource(options.model));
const tokenizer = createTokenizer(metadata);
const began = performance.now();
const { vocabulary } = vocabularyOf(tokenizer);
console.log(`${tokenizer.vocabularySize} tokens, tries in ${(performance.now() - began).toFixed(0)} ms, ${rssMb()} MB`);
const { GrammarMatcher, MaskGrammar } = maskAddon();
const cases = options.bench === undefined ? TYPICAL : sample(options.bench, Number(options.schemas));
const times = { make: [], prepare: [], first: [], mask: [] };
const sizes = [];
let exceeded = 0;
let broken = 0;
for (const { name, schema, tests } of cases) {
  const from = process.cpuUsage();
  let buffer;
  try {
    buffer = grammarBuffer(grammarOf({ $case: 'jsonSchema', value: JSON.stringify(schema) }));
  } catch {
    continue;
  }
  times.make.push(process.cpuUsage(from).user / 1000);
  const before = process.cpuUsage();
  const grammar = await vocabulary.prepare(buffer, MaskGrammar);
  const { user, system } = process.cpuUsage(before);
  const prepared = (user + system) / 1000;
  times.prepare.push(prepared);
  const own = [];
  for (const { data, valid } of tests) {
    if (!valid) continue;
    const matcher = new GrammarMatcher(grammar);
    let tokenIds = [];
    for (const next of [
      ...tokenizer.encodePrompt(JSON.stringify(data), { parseSpecial: false, addSpecial: false }),
      -1,
    ]) {
      const [result] = await vocabulary.run([
        { matcher, tokenIds: Uint32Array.from(tokenIds), draftTokens: undefined },
      ]);
      if (result.outcome !== 'ready') {
        exceeded += Number(result.outcome === 'exceeded');
        if (result.outcome === 'exceeded') console.log(`${name}: ${result.why}`);
        broken += Number(result.outcome === 'broken');
        break;
      }
      own.push(result.ms);
      tokenIds = [next];
      if (next >= 0 && (result.mask.bits[next >> 3] & (1 << (next & 7))) === 0) {
        broken++;
        break;
      }
    }
    matcher.close();
  }
  times.first.push(own[0] ?? 0);
  times.mask.push(...own);
  sizes.push(grammar.allocatedBytes / 1e6);
  if (options.bench === undefined)
    console.log(
      `${name}: made ${times.make.at(-1).toFixed(1)} ms, prepared ${prepared.toFixed(2)} ms, ${own.length} masks p50 / p90 / p99 / p99.9 / max ${quantiles(own)}, ${sizes.at(-1).toFixed(2)} MB`,
    );
  else if (Math.max(...own) > 10) console.log(`${name}: slowest mask ${Math.max(...own).toFixed(1)} ms`);
}
console.log('p50 / p90 / p99 / p99.9 / max, ms of a processor:');
for (const [what, all] of Object.entries(times)) console.log(`  ${what} (${all.length}): ${quantiles(all)}`);
console.log(`  MB of a grammar: ${quantiles(sizes)}`);
console.log(`${exceeded} beyond their budget, ${broken} traces that leave the grammar`);
console.log(`engine ${(vocabulary.allocatedBytes / 1e6).toFixed(1)} MB, process ${rssMb()} MB`);
