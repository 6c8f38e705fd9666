// Memory of constraints that are all different: grows by how much, and stays.
//   node --expose-gc bench/distinct-grammars.mjs --model vocabulary.gguf [--kind schemas|choices] [--count 2000] [--rounds 1]
// schemas: objects of some fields with names, bounds, patterns and enumerations of their own. choices: 9,000 texts, about 200 KB. Each is
// opened, goes on by some tokens, and is closed; four clients at once. A round is `count` constraints; memory should not grow from the
// second round on.

import { Matchers } from '../dist/gateway/matching/matchers.js';
import { FileByteSource } from '../dist/lib/gguf/byte-source.js';
import { readGguf } from '../dist/lib/gguf/reader.js';
import { createTokenizer } from '../dist/lib/tokenizer/tokenizer.js';
import { benchArguments } from './arguments.mjs';

const { values: options } = benchArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    kind: { type: 'string', default: 'schemas' },
    count: { type: 'string', default: '2000' },
    rounds: { type: 'string', default: '1' },
  },
});
const CLIENTS = 4;
const TOKENS = 12;

const schema = (i) => ({
  $case: 'jsonSchema',
  value: JSON.stringify({
    type: 'object',
    properties: {
      [`name${i}`]: { type: 'string', maxLength: 20 + (i % 180) },
      code: { type: 'string', pattern: `^[A-Z]{${1 + (i % 5)}}-[0-9]{${1 + (i % 7)}}$` },
      kind: { enum: [`a${i}`, `b${i}`, 'other'] },
      size: { type: 'integer', minimum: i, maximum: 1000 + 3 * i },
      tags: { type: 'array', items: { type: 'string', maxLength: 1 + (i % 40) }, maxItems: 1 + (i % 9) },
      created: { type: 'string', format: 'date-time' },
    },
    required: [`name${i}`, 'code', 'kind', 'size', 'tags', 'created'],
    additionalProperties: false,
  }),
});
const choice = (i) => ({
  $case: 'choice',
  value: { options: Array.from({ length: 9000 }, (_, j) => `${i.toString(36)}-${j.toString(36)}-${'word'.repeat(3)}`) },
});
const make = options.kind === 'choices' ? choice : schema;

async function megabytes() {
  for (let i = 0; i < 3; i++) {
    globalThis.gc?.();
    // What native objects hold goes after a collection.
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return process.memoryUsage.rss() / 1e6;
}

const tokenizer = createTokenizer(readGguf(new FileByteSource(options.model)).metadata);
const matchers = new Matchers({ tokenizer });
const idle = await megabytes();
const began = performance.now();
const count = Number(options.count);

async function answer(i) {
  const opened = await matchers.open(make(i), { principal: `client-${i % CLIENTS}` });
  let wake;
  let failure;
  opened.listen({
    ready: () => wake?.(),
    failed: (error) => {
      failure = error;
      wake?.();
    },
  });
  for (let n = 0; n < TOKENS; n++) {
    if (opened.mask === undefined) await new Promise((resolve) => (wake = resolve));
    if (failure !== undefined) throw failure;
    const { bits, onlyEnds } = opened.mask;
    if (onlyEnds) break;
    // A token that is allowed, another one each time.
    let id = (i * 7919 + n * 104729) % (8 * bits.length);
    while ((bits[id >> 3] & (1 << (id & 7))) === 0 || tokenizer.eogIds.has(id)) id = (id + 1) % (8 * bits.length);
    opened.accept(id);
  }
  opened.close();
}

for (let round = 0; round < Number(options.rounds); round++) {
  let next = round * count;
  const end = next + count;
  let highest = 0;
  const client = async () => {
    while (next < end) {
      const i = next++;
      await answer(i);
      if (i % 50 === 0) highest = Math.max(highest, process.memoryUsage.rss() / 1e6);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  const { engineBytes, grammarBytes, grammars, evictions } = matchers.counts;
  const rss = await megabytes();
  console.log(
    `${options.kind}, ${end} distinct: ${rss.toFixed(0)} MB, ${(rss - idle).toFixed(0)} more than idle (highest ${(highest - idle).toFixed(0)}); engine ${(engineBytes / 1e6).toFixed(0)}, ` +
      `${grammars} grammars kept ${(grammarBytes / 1e6).toFixed(0)}, ${evictions} evicted; ${((performance.now() - began) / 1000).toFixed(0)} s`,
  );
}
await matchers.close();
