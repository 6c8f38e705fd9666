/**
 * Cost of constrained streams for the free ones next to them, and for themselves: 32 of each before a fake executor whose steps
 * take 5 ms, each kind alone and both together, and as many free ones as both.
 *
 *     node build/bench/bench/gateway/constrained.js
 *
 * Run it from the repository root, built as for measure.js. Ends with code 1 when a bound does not hold.
 */
import os from 'node:os';
import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { MetricsSnapshot } from '../../src/cli/bench/prometheus.js';
import {
  type Constraint,
  GenerateStreamRequest,
  type GenerateStreamResponse,
  InferenceServiceClient,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { startStack } from './processes.js';

const STREAMS = 32;
const STEP_MS = 5;
const SETTLE_MS = 3000;
const MEASURE_MS = 8000;
const ROUNDS = 3;
/** Words, numbers and lists, without an end: many states, met again and again. */
const GRAMMAR =
  'root ::= "~" | (word | number | list) " " root\nword ::= [a-z]{1,9}\nnumber ::= [0-9]{1,7}\nlist ::= "[" word ("," word){0,4} "]"\n';

const stack = await startStack({ stepMs: STEP_MS, maxSequences: 2 * STREAMS });
const client = new InferenceServiceClient(stack.address, credentials.createInsecure());

/** Tokens a second of so many endless streams of each kind. */
async function rates(free: number, constrained: number): Promise<{ free: number; constrained: number; late: number }> {
  const counts = { free: 0, constrained: 0 };
  const open = (kind: keyof typeof counts, constraint?: Constraint) => {
    const input = { $case: 'tokens' as const, value: { ids: [260, 261, 262, 263] } };
    const call = client.generateStream({ ...GenerateStreamRequest.create(), input, constraint });
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case === 'chunk') counts[kind] += event.value.tokenIds.length;
    });
    call.on('error', ({ code, details }: ServiceError) => {
      if (code !== status.CANCELLED) process.stderr.write(`${details}\n`);
    });
    return call;
  };
  const form: Constraint = { kind: { $case: 'grammar', value: GRAMMAR } };
  const calls = [
    ...Array.from({ length: free }, () => open('free')),
    ...Array.from({ length: constrained }, () => open('constrained', form)),
  ];
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const before = { ...counts, metrics: await MetricsSnapshot.read(stack.metrics), at: performance.now() };
  await new Promise((resolve) => setTimeout(resolve, MEASURE_MS));
  const seconds = (performance.now() - before.at) / 1000;
  const after = await MetricsSnapshot.read(stack.metrics);
  const measured = {
    free: (counts.free - before.free) / seconds,
    constrained: (counts.constrained - before.constrained) / seconds,
    late: after.get('mask_misses_total') - before.metrics.get('mask_misses_total'),
  };
  for (const call of calls) call.cancel();
  await new Promise((resolve) => setTimeout(resolve, 500));
  return measured;
}

let holds = true;
try {
  for (let round = 1; round <= ROUNDS; round++) {
    const free = await rates(STREAMS, 0);
    const constrained = await rates(0, STREAMS);
    const both = await rates(STREAMS, STREAMS);
    const allFree = await rates(2 * STREAMS, 0);
    const freeShare = both.free / free.free;
    const constrainedShare = both.constrained / constrained.constrained;
    const share = (both.free + both.constrained) / allFree.free;
    holds &&= freeShare >= 0.97 && constrainedShare >= 0.9 && share >= 0.98;
    process.stdout.write(
      `alone: ${free.free.toFixed(0)} free, ${constrained.constrained.toFixed(0)} constrained tokens/s (${constrained.late} late); ` +
        `together ${both.free.toFixed(0)} (${(100 * freeShare).toFixed(1)} %, bound 97 %) and ` +
        `${both.constrained.toFixed(0)} (${(100 * constrainedShare).toFixed(1)} %, bound 90 %), ${both.late} late; ` +
        `of ${allFree.free.toFixed(0)} of ${2 * STREAMS} free ones ${(100 * share).toFixed(1)} % (bound 98 %); ` +
        `load ${os.loadavg()[0]?.toFixed(1)}\n`,
    );
  }
} finally {
  client.close();
  await stack.stop();
}
process.exit(holds ? 0 : 1);
