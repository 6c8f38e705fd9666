// Share of JSON Schema that constrained answers hold, counted: the standard's test suite and a fixed sample of JSONSchemaBench.
//   node bench/peers/json-schema-suites.mjs --suite JSON-Schema-Test-Suite/tests/draft2020-12 --bench maskbench/data
//     [--verbose]
// Each schema becomes a grammar, each instance a text, and the mask engine says whether the grammar has it. A wrong accept is an
// instance that the suite calls invalid and the grammar has; a wrong refusal the opposite. `../masks.mjs` measures masks.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { grammarOf } from '../../dist/gateway/constraints/grammar-of.js';
import { maskAddon } from '../../dist/gateway/matching/mask-addon.js';
import { grammarBuffer } from '../../dist/lib/grammar/grammar-buffer.js';
import { SchemaDocument } from '../../dist/lib/grammar/json-schema/document.js';
import { inPlace, propertyOrder } from '../../dist/lib/grammar/json-schema/property-order.js';
import { benchArguments } from '../arguments.mjs';

/** Files of JSONSchemaBench. */
const SAMPLE = 500;
const { values: options } = benchArguments(import.meta.url, {
  options: {
    suite: { type: 'string' },
    bench: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
});
/** Ends a text; the other tokens are bytes. */
const END = 256;
const { GrammarMatcher, MaskGrammar, MaskVocabulary } = maskAddon();
const vocabulary = new MaskVocabulary(
  Uint8Array.from({ length: END }, (_, byte) => byte),
  Uint32Array.from({ length: END + 2 }, (_, id) => Math.min(id, END)),
  Uint32Array.of(END),
);

/** True if a grammar has a text. */
async function has(grammar, text) {
  const matcher = new GrammarMatcher(grammar);
  const job = { matcher, tokenIds: Uint32Array.from(Buffer.from(text)), draftTokens: undefined };
  const [{ outcome, mask, why }] = await vocabulary.run([job]);
  matcher.close();
  if (outcome === 'exceeded') console.log(`  BEYOND ITS BUDGET: ${why}: ${text.slice(0, 100)}`);
  return outcome === 'ready' && (mask.bits[END >> 3] & (1 << (END & 7))) !== 0;
}

/** The standard's cases: a schema and its instances. */
function suiteCases(folder) {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  return files.sort().flatMap((name) =>
    JSON.parse(readFileSync(path.join(folder, name), 'utf8')).map(({ description, schema, tests }) => ({
      name: `${name}: ${description}`,
      schema,
      tests: tests.map((test) => ({ ...test, name: test.description })),
    })),
  );
}

/** The first files by the hash of their name that have tests. */
function sampleCases(folder) {
  const hash = (name) => createHash('sha256').update(name).digest('hex');
  const names = readdirSync(folder).sort((a, b) => (hash(a) < hash(b) ? -1 : 1));
  const found = [];
  for (const name of names) {
    const { schema, tests } = JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
    if (tests?.length > 0)
      found.push({ name, schema, tests: tests.map((test) => ({ ...test, name: test.description })) });
    if (found.length === SAMPLE) break;
  }
  return found;
}

/** The instance as text, properties in the order of the schema; those it does not mention last, in their own order. */
function written(value, nodes, document) {
  const applied = inPlace(nodes, document);
  const children = (keywords, ...path) =>
    applied.flatMap((node) =>
      keywords.flatMap((keyword) => {
        const held = node.schema[keyword];
        const inner = path.reduce((at, step) => (Object.hasOwn(at ?? {}, step) ? at[step] : undefined), held);
        return inner === undefined || typeof inner !== 'object' ? [] : [document.child(node, keyword, ...path)];
      }),
    );
  if (Array.isArray(value)) {
    const items = value.map((item, index) => {
      const tuple = children(['prefixItems', 'items'], String(index));
      const all = applied.flatMap((node) =>
        ['items', 'additionalItems', 'contains', 'unevaluatedItems']
          .filter((keyword) => typeof node.schema[keyword] === 'object' && !Array.isArray(node.schema[keyword]))
          .map((keyword) => document.child(node, keyword)),
      );
      return written(item, [...tuple, ...all], document);
    });
    return `[${items.join(', ')}]`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const order = propertyOrder(nodes, document);
  const names = [
    ...order.filter((name) => Object.hasOwn(value, name)),
    ...Object.keys(value).filter((name) => !order.includes(name)),
  ];
  const members = names.map((name) => {
    const own = children(['properties'], name);
    const patterned = applied.flatMap((node) =>
      Object.keys(node.schema.patternProperties ?? {}).map((source) =>
        document.child(node, 'patternProperties', source),
      ),
    );
    const others = ['additionalProperties', 'unevaluatedProperties'].flatMap((keyword) => children([keyword]));
    return `${JSON.stringify(name)}: ${written(value[name], [...own, ...patterned, ...others], document)}`;
  });
  return `{${members.join(', ')}}`;
}

/** Seconds of this process's own time: the rest of the machine does not count. */
const seconds = (from) => {
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1e6;
};

async function judged({ name, schema, tests }) {
  const source = JSON.stringify(schema);
  const started = process.cpuUsage();
  let buffer;
  try {
    buffer = grammarBuffer(grammarOf({ $case: 'jsonSchema', value: source }));
  } catch (error) {
    const { at, keyword } = error.metadata ?? {};
    return {
      name,
      refused: keyword ?? 'DEFECT',
      at,
      message: error.reason === undefined ? error.stack : error.message,
    };
  }
  const made = seconds(started);
  const grammar = await vocabulary.prepare(buffer, MaskGrammar);
  const wrongAccepts = [];
  const wrongRefusals = [];
  const document = new SchemaDocument(source);
  for (const { data, valid, name: test } of tests) {
    const texts = [...new Set([JSON.stringify(data), written(data, [document.root], document)])];
    const accepted = [];
    for (const text of texts) if (await has(grammar, text)) accepted.push(text);
    if (!valid && accepted.length > 0) wrongAccepts.push({ test, text: accepted[0] });
    if (valid && accepted.length === 0) wrongRefusals.push({ test, text: texts.at(-1) });
  }
  return { name, made, bytes: buffer.length, wrongAccepts, wrongRefusals };
}

function quantile(numbers, share) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}

async function report(title, cases) {
  const results = [];
  for (const one of cases) {
    if (options.verbose) console.error(one.name);
    results.push(await judged(one));
  }
  const accepted = results.filter(({ refused }) => refused === undefined);
  const refused = new Map();
  for (const { refused: keyword } of results)
    if (keyword !== undefined) refused.set(keyword, (refused.get(keyword) ?? 0) + 1);
  const count = (key) => accepted.reduce((sum, result) => sum + result[key].length, 0);
  console.log(`\n${title}: ${accepted.length} of ${results.length} schemas accepted`);
  console.log(`  wrong accepts ${count('wrongAccepts')}, wrong refusals ${count('wrongRefusals')}`);
  const times = accepted.map(({ made }) => made);
  const spread = [0.5, 0.9, 0.99, 1].map((share) => quantile(times, share).toFixed(3)).join(' / ');
  console.log(`  CPU seconds to make a grammar, p50 / p90 / p99 / max: ${spread}`);
  console.log(
    `  refused by keyword: ${[...refused]
      .sort((a, b) => b[1] - a[1])
      .map(([keyword, times]) => `${keyword || 'the schema'} ${times}`)
      .join(', ')}`,
  );
  for (const { name, wrongAccepts, wrongRefusals } of accepted) {
    for (const { test, text } of wrongAccepts) console.log(`  WRONG ACCEPT ${name} / ${test}: ${text.slice(0, 200)}`);
    for (const { test, text } of wrongRefusals) console.log(`  wrong refusal ${name} / ${test}: ${text.slice(0, 200)}`);
  }
  if (!options.verbose) return;
  for (const { name, refused: keyword, at, message } of results) {
    if (keyword !== undefined) console.log(`  refused ${name} at ${at}: ${message.slice(0, 300)}`);
  }
  for (const { name, made, bytes } of accepted) {
    if (made > 0.5) console.log(`  slow ${name}: ${made.toFixed(2)} s, ${bytes} bytes`);
  }
}

if (options.suite !== undefined) await report('JSON-Schema-Test-Suite', suiteCases(options.suite));
if (options.bench !== undefined) await report('JSONSchemaBench', sampleCases(options.bench));
process.exit(0);
