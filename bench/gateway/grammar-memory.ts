/**
 * Memory of a gateway behind requests whose constraints are all different: choices of 9,000 texts, about 200 KB, with a vocabulary of
 * 151,936 tokens, before a fake executor.
 *
 *     node build/bench/bench/gateway/grammar-memory.js [requests]
 *
 * Run it from the repository root, built as for measure.js. Ends with code 1 when the gateway's resident memory has ever been more
 * than 300 MB above what it was before the first request, or a request fails.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import {
  GenerateRequest,
  type GenerateResponse,
  InferenceServiceClient,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { typed } from '../../test/support/gguf-builder.js';
import { Random } from '../../test/support/random.js';
import { writeRandomModel } from '../../test/support/random-model.js';
import { startStack } from './processes.js';

const REQUESTS = Number(process.argv[2] ?? 2000);
const TOKENS = 151_936;
/** Rows of the random model's matrices. */
const OWN_TOKENS = 299;
const OPTIONS = 9000;
const CLIENTS = 4;
const MOST_MB = 300;
const IDLE_MS = 5000;
const LOOK_MS = 100;

/** Bytes, and words of letters. */
function vocabulary(): string[] {
  const random = new Random(2);
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const words = new Set<string>();
  while (words.size < TOKENS - 3 - bytes.length) {
    words.add(Array.from({ length: 2 + random.below(8) }, () => String.fromCharCode(97 + random.below(26))).join(''));
  }
  return ['<unk>', '<s>', '</s>', ...bytes, ...words];
}

const tokens = vocabulary();
const model = writeRandomModel({
  contextLength: 65_536,
  paddedRows: TOKENS - OWN_TOKENS,
  metadata: {
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': typed.arrayOf(
      typed.f32,
      tokens.map((_, i) => -i),
    ),
    'tokenizer.ggml.token_type': typed.arrayOf(
      typed.i32,
      tokens.map((_, i) => (i < 3 ? 3 : i < 259 ? 6 : 1)),
    ),
  },
});
const stack = await startStack({ stepMs: 0, maxSequences: 16, model: { path: model, tokens: TOKENS } });
const client = new InferenceServiceClient(stack.address, credentials.createInsecure());

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`http://${stack.metrics}/metrics`)).text();
  return Number(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'm').exec(text)?.[1]);
}
const residentMb = async () => (await metric('process_resident_memory_bytes')) / 1e6;

function answered(i: number): Promise<GenerateResponse> {
  const options = Array.from({ length: OPTIONS }, (_, j) => `${i.toString(36)}-${j.toString(36)}-${'word'.repeat(3)}`);
  const message = GenerateRequest.fromPartial({
    input: { $case: 'text', value: { text: 'the fox' } },
    stop: { maxTokens: 12 },
    constraint: { kind: { $case: 'choice', value: { options } } },
  });
  return new Promise((resolve, reject) => {
    client.generate(message, new Metadata(), (error: ServiceError | null, response) =>
      error === null ? resolve(response) : reject(error),
    );
  });
}

await sleep(IDLE_MS);
const idle = await residentMb();
let highest = idle;
let isOver = false;
const watch = (async () => {
  while (!isOver) {
    highest = Math.max(highest, await residentMb());
    await sleep(LOOK_MS);
  }
})();
const began = performance.now();
let next = 0;
await Promise.all(
  Array.from({ length: CLIENTS }, async () => {
    while (next < REQUESTS) await answered(next++);
  }),
);
const seconds = (performance.now() - began) / 1000;
await sleep(IDLE_MS);
isOver = true;
await watch;
const after = await residentMb();
const [kept, evicted] = [
  await metric('rocmforge_grammar_cache_entries'),
  await metric('rocmforge_grammar_cache_evictions_total'),
];
console.log(
  `${REQUESTS} choices of ${OPTIONS} texts in ${seconds.toFixed(0)} s: idle ${idle.toFixed(0)} MB, highest ${highest.toFixed(0)} ` +
    `(${(highest - idle).toFixed(0)} more), ${IDLE_MS / 1000} s after the last ${after.toFixed(0)} (${(after - idle).toFixed(0)} more); ` +
    `grammars kept ${kept}, evicted ${evicted}`,
);
client.close();
await stack.stop();
process.exitCode = highest - idle <= MOST_MB ? 0 : 1;
