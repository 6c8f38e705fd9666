import { Agent, request as httpRequest } from 'node:http';
import { expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.js';
import { ask } from '../support/http.js';
import { mutate, mutateValues } from '../support/mutations.js';
import { Random } from '../support/random.js';
import { writeRandomModel } from '../support/random-model.js';
import { runs, seed } from '../support/run-size.js';

const REQUESTS = runs(4000);
const CONCURRENT = 16;
const TIME_LIMIT_MS = 600_000;

const sampled = { temperature: 0.7, seed: 1, logit_bias: { 5: 1 }, stop: ['sea'], ignore_eos: true };
const message = {
  sampling: { temperature: 0.7, topK: 20, seed: '11' },
  stop: { maxTokens: 3, strings: ['sea'] },
  n: 2,
};
const CONNECT = '/rocmforge.v1.InferenceService';

it.each([
  [
    'OpenAI',
    [
      ['/v1/completions', { prompt: 'the fox', max_tokens: 3, logprobs: 2, n: 2, echo: true, ...sampled }],
      ['/v1/completions', { prompt: [[270, 280], 'the'], max_tokens: 3, ...sampled }],
      ['/v1/chat/completions', { messages: [{ role: 'user', content: 'the fox' }], max_tokens: 3, ...sampled }],
      ['/v1/completions', { prompt: [270], max_tokens: 3, stream: true, stream_options: { include_usage: true } }],
    ],
  ],
  [
    'llama.cpp',
    [
      ['/completion', { prompt: 'the fox', n_predict: 3, n_probs: 2, return_tokens: true, ...sampled }],
      ['/completion', { prompt: [270], n_predict: 3, stream: true, timings_per_token: true }],
      ['/completion', { prompt: 'the', n_predict: 3, grammar: 'root ::= "the" | "fox"' }],
      ['/tokenize', { content: 'the fox', with_pieces: true }],
      ['/detokenize', { tokens: [270, 280] }],
    ],
  ],
  [
    'Connect',
    [
      [`${CONNECT}/Generate`, { text: { text: 'the fox' }, ...message }],
      [`${CONNECT}/Generate`, { tokens: { ids: [270, 280] }, ...message, output: { logprobs: 2 } }],
      [`${CONNECT}/Tokenize`, { text: { text: 'the fox', parseSpecial: true } }],
      [`${CONNECT}/Detokenize`, { tokenIds: [270, 280] }],
    ],
  ],
] as const)(
  `%s’s requests, ${REQUESTS} of them mutated, are answered each, and nothing of them stays`,
  async (_, cases) => {
    const model = writeRandomModel({ contextLength: 48 });
    const server = await startTestGateway(model, { httpListen: '127.0.0.1:0', maxQueuedRequests: 4096 });
    const { gateway } = server;
    const { httpServer, replica } = gateway;
    const agent = new Agent({ keepAlive: true, maxSockets: CONCURRENT });
    const random = new Random(seed(29));
    const seeds = cases.map(([path, body]) => ({ path, json: JSON.stringify(body) }));
    const statuses = new Map<number, number>();
    let sent = 0;
    const send = (path: string, bytes: Buffer) =>
      new Promise<void>((resolve, reject) => {
        const headers = { 'content-type': 'application/json', 'content-length': bytes.length };
        const call = httpRequest({ port: httpServer?.port, path, method: 'POST', headers, agent }, (answer) => {
          statuses.set(answer.statusCode ?? 0, (statuses.get(answer.statusCode ?? 0) ?? 0) + 1);
          answer.on('end', resolve).on('error', reject).resume();
        });
        call.on('error', reject).end(bytes);
      });
    const worker = async () => {
      while (sent++ < REQUESTS) {
        const { path, json } = seeds[sent % seeds.length] as (typeof seeds)[number];
        const changed = mutateValues(json, random);
        // Most changes of bytes leave no valid JSON.
        await send(path, random.below(4) === 0 ? mutate(Buffer.from(changed), random) : Buffer.from(changed));
      }
    };
    try {
      await Promise.all(Array.from({ length: CONCURRENT }, worker));
      console.log('statuses', Object.fromEntries(statuses));
      expect([...statuses.values()].reduce((a, b) => a + b, 0)).toBe(REQUESTS);
      // Both happen: what is changed is still a request, or is not.
      for (const status of [200, 400]) expect(statuses.get(status)).toBeGreaterThanOrEqual(0.02 * REQUESTS);
      expect([...statuses.keys()].filter((status) => status >= 500)).toEqual([]);
      await expect.poll(() => replica.active).toBe(0);
      await expect.poll(() => [httpServer?.unanswered, httpServer?.bodies.unfinishedCount]).toEqual([0, 0]);
      await expect.poll(() => replica.scheduler?.stepsInFlight).toBe(0);
      replica.scheduler?.check();
      expect(replica.scheduler?.blocks.freeCount).toBe(replica.scheduler?.blocks.capacity);
      expect(gateway.executorEpoch()).toBe(1);
      expect((await ask(gateway, '/health')).status).toBe(200);
    } finally {
      agent.destroy();
      await server.stop();
    }
  },
  TIME_LIMIT_MS,
);
