// First token of a constraint that the gateway has never seen, beside that of a free answer; and the rate of one constrained stream beside
// that of a free one. Each pair is measured in turn, so that a ratio is one of the same minutes.
//   node bench/first-token.mjs --address 127.0.0.1:50051 [--count 40] [--tokens 200] [--words 0]
// Start a gateway first: node dist/cli/main.js serve --model model.gguf. Ratios are of medians. --words: the prompt is so many words longer,
// other ones each time.

import { credentials } from '@grpc/grpc-js';
import { GenerateStreamRequest, InferenceServiceClient } from '../dist/shared/generated/rocmforge/v1/inference.js';
import { benchArguments } from './arguments.mjs';

const { values: options } = benchArguments(import.meta.url, {
  options: {
    address: { type: 'string', default: '127.0.0.1:50051' },
    count: { type: 'string', default: '40' },
    tokens: { type: 'string', default: '200' },
    words: { type: 'string', default: '0' },
  },
});
const client = new InferenceServiceClient(options.address, credentials.createInsecure());

let prompts = 0;
/** The same length each time, and no beginning that another had. */
function prompt() {
  prompts += 1;
  const words = Array.from({ length: Number(options.words) }, (_, i) => `${(prompts * 7919 + i * 104_729) % 9973}`);
  return [...words, 'Describe the order as JSON.'].join(' ');
}

/** Milliseconds to the first token, and tokens in a second behind it. */
function measure(constraint, maxTokens) {
  const message = GenerateStreamRequest.fromPartial({
    input: { $case: 'text', value: { text: prompt() } },
    stop: { maxTokens, ignoreEos: constraint === undefined },
    ...(constraint !== undefined && { constraint }),
  });
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let first;
    let last;
    let tokens = 0;
    const call = client.generateStream(message);
    call.on('data', ({ event }) => {
      if (event?.$case !== 'chunk' || event.value.tokenIds.length === 0) return;
      last = performance.now();
      first ??= { at: last, tokens: event.value.tokenIds.length };
      tokens += event.value.tokenIds.length;
    });
    call.on('error', reject);
    call.on('end', () =>
      resolve({ firstMs: first.at - began, rate: (1000 * (tokens - first.tokens)) / (last - first.at), tokens }),
    );
  });
}

const KINDS = {
  'two fields': (i) => ({
    type: 'object',
    properties: { [`name${i}`]: { type: 'string', maxLength: 40 + i }, count: { type: 'integer', maximum: 1000 + i } },
    required: [`name${i}`, 'count'],
    additionalProperties: false,
  }),
  nested: (i) => ({
    type: 'object',
    properties: {
      [`id${i}`]: { type: 'string', pattern: `^[A-Z]{3}-[0-9]{${1 + (i % 9)}}$` },
      kind: { enum: ['book', 'film', `song${i}`] },
      price: { type: 'number', minimum: 0, maximum: 1000 + i },
      created: { type: 'string', format: 'date-time' },
      author: {
        type: 'object',
        properties: { [`name${i}`]: { type: 'string' }, email: { type: 'string', format: 'email' } },
        required: [`name${i}`],
        additionalProperties: false,
      },
    },
    required: [`id${i}`, 'kind', 'price', 'created', 'author'],
    additionalProperties: false,
  }),
  '60 optional fields': (i) => ({
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 60 }, (_, j) => [`field${i}_${j}`, { type: 'string' }])),
  }),
};
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const count = Number(options.count);
const jsonSchema = (schema) => ({ kind: { $case: 'jsonSchema', value: JSON.stringify(schema) } });

// Both kinds once before: threads start.
await measure(undefined, 4);
await measure(jsonSchema(KINDS['two fields'](9999)), 4);
for (const [name, schema] of Object.entries(KINDS)) {
  const [free, constrained] = [[], []];
  for (let i = 0; i < count; i++) {
    free.push((await measure(undefined, 2)).firstMs);
    constrained.push((await measure(jsonSchema(schema(i)), 2)).firstMs);
  }
  const ratio = median(constrained) / median(free);
  console.log(
    `first token, ${name}: free ${median(free).toFixed(1)} ms, a new schema ${median(constrained).toFixed(1)} ms, ratio ${ratio.toFixed(3)} (medians of ${count})`,
  );
}
const tokens = Number(options.tokens);
const endless = { kind: { $case: 'regex', value: '([a-z]{1,9} )*' } };
const [free, constrained] = [[], []];
for (let i = 0; i < 5; i++) {
  free.push((await measure(undefined, tokens)).rate);
  const found = await measure(endless, tokens);
  if (found.tokens === tokens) constrained.push(found.rate);
}
console.log(
  `one stream: free ${median(free).toFixed(1)} tokens/s, constrained ${median(constrained).toFixed(1)}, ratio ${(median(constrained) / median(free)).toFixed(3)} (medians of ${constrained.length} times ${tokens} tokens)`,
);
client.close();
