import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { generate, request } from '../../../support/gateway.js';
import { ask, eventsOf } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

const body = { prompt: [259, 260, 261], n_predict: 4, ignore_eos: true };

it.each(['/completion', '/v1/completions'])(
  '%s tells its times, and with each event where it is asked to',
  async (path) => {
    const whole = await ask(server.gateway, path, body);
    expect(whole.json.timings).toMatchObject({ prompt_n: 3, predicted_n: 4, cache_n: 0 });
    const told = async (timings_per_token: boolean) => {
      const { text } = await ask(server.gateway, path, { ...body, stream: true, timings_per_token });
      const events = eventsOf(text).filter((event) => event !== '[DONE]');
      return events.map((event) => JSON.parse(event).timings?.predicted_n).slice(0, 4);
    };
    expect((await told(true))[0]).toBeGreaterThan(0);
    expect((await told(false))[0]).toBeUndefined();
  },
);

it.each([
  ['/completion', (prompt: string) => ({ prompt, n_predict: 2 })],
  ['/v1/completions', (prompt: string) => ({ prompt, max_tokens: 2 })],
  ['/v1/chat/completions', (content: string) => ({ messages: [{ role: 'user', content }], max_tokens: 2 })],
])('%s tells how far a prompt has come where it is asked to: what is cached, then each step', async (path, bodyOf) => {
  const model = { chatTemplate: '{{ messages[0].content }}' };
  const small = await startFakeGateway({ httpListen: '127.0.0.1:0', maxStepTokens: 16, model });
  try {
    const told = async (return_progress: boolean) => {
      const asked = { ...bodyOf('the fox '.repeat(24)), stream: true, ignore_eos: true, return_progress };
      const { status, text } = await ask(small.gateway, path, { ...asked, timings_per_token: true });
      expect(status).toBe(200);
      const events = eventsOf(text).filter((event) => event !== '[DONE]');
      return events.map((event) => JSON.parse(event));
    };
    const first = (await told(true)).filter(({ prompt_progress }) => prompt_progress !== undefined);
    const { total } = first[0].prompt_progress;
    expect(total).toBeGreaterThan(32);
    const steps = Array.from({ length: Math.ceil(total / 16) + 1 }, (_, i) => Math.min(16 * i, total));
    expect(first.map(({ prompt_progress: { processed } }) => processed)).toEqual(steps);
    expect(first.every(({ prompt_progress: { cache, total: of } }) => cache === 0 && of === total)).toBe(true);
    const again = (await told(true)).filter(({ prompt_progress }) => prompt_progress !== undefined);
    const [{ cache, processed }] = again.map(({ prompt_progress }) => prompt_progress);
    expect([cache, processed]).toEqual([16 * Math.floor((total - 1) / 16), cache]);
    expect(again.at(-1).prompt_progress).toMatchObject({ cache, processed: total });
    const none = await told(false);
    expect(none.some(({ prompt_progress }) => prompt_progress !== undefined)).toBe(false);
  } finally {
    await small.stop();
  }
});

it('do not count the wait for a slot as time of the prompt', async () => {
  const single = await startFakeGateway({ httpListen: '127.0.0.1:0', maxSequences: 1, stepMs: 10 });
  try {
    const first = ask(single.gateway, '/completion', { ...body, n_predict: 60 });
    await expect.poll(() => single.gateway.replica.counts.running).toBe(1);
    const began = performance.now();
    const { json } = await ask(single.gateway, '/completion', body);
    const waited = performance.now() - began;
    await first;
    // It waited for nearly all of the other's 60 steps, and took 4 itself.
    expect(waited).toBeGreaterThan(200);
    expect(json.timings.prompt_ms).toBeLessThan(waited / 2);
  } finally {
    await single.stop();
  }
});

it('draftTokens are counted as each form has words for them, and on gRPC with the times', async () => {
  const repeating = Array.from({ length: 64 }, (_, i) => 262 + (i % 4));
  const drafting = await startFakeGateway({ httpListen: '127.0.0.1:0', script: repeating });
  try {
    const tokens = 40;
    const prompt = [262, 263, 264, 265, 262, 263, 264, 265];
    const asked = { prompt, max_tokens: tokens, ignore_eos: true };
    // The number of proposals varies with how long steps take, so that each answer is compared with itself.
    const proposed = (counts: { draft_n: number; draft_n_accepted: number }) => {
      const { draft_n, draft_n_accepted } = counts;
      expect(draft_n_accepted).toBeGreaterThan(0);
      expect(draft_n).toBeGreaterThanOrEqual(draft_n_accepted);
      expect(draft_n).toBeLessThan(2 * tokens);
      return { draft_n, draft_n_accepted };
    };
    const detailsOf = (counts: { draft_n: number; draft_n_accepted: number }) => {
      const { draft_n, draft_n_accepted } = proposed(counts);
      return {
        reasoning_tokens: 0,
        accepted_prediction_tokens: draft_n_accepted,
        rejected_prediction_tokens: draft_n - draft_n_accepted,
      };
    };
    const completion = { prompt, n_predict: tokens, ignore_eos: true };
    proposed((await ask(drafting.gateway, '/completion', completion)).json.timings);
    const { usage, timings } = (await ask(drafting.gateway, '/v1/completions', asked)).json;
    expect(usage.completion_tokens_details).toEqual(detailsOf(timings));
    const streamed = { ...asked, stream: true, stream_options: { include_usage: true } };
    const events = eventsOf((await ask(drafting.gateway, '/v1/completions', streamed)).text);
    const last = JSON.parse(events.at(-2)!);
    expect(last.usage.completion_tokens_details).toEqual(detailsOf(last.timings));
    const began = performance.now();
    const stop = { maxTokens: tokens, ignoreEos: true };
    const { complete } = await generate(drafting.client, request({ tokens: prompt, stop }));
    const tookUs = 1000 * (performance.now() - began);
    const { proposedTokens, acceptedTokens } = complete!.usage!;
    proposed({ draft_n: proposedTokens, draft_n_accepted: acceptedTokens });
    const { queuedUs, prefillUs, decodeUs } = complete!.usage!;
    for (const us of [queuedUs, prefillUs, decodeUs]) expect(us).toBeGreaterThan(0n);
    expect(Number(queuedUs + prefillUs + decodeUs)).toBeLessThan(tookUs);
  } finally {
    await drafting.stop();
  }
});

it('llama.cpp’s form has the prompt as the model reads it', async () => {
  const promptOf = async (prompt: unknown) =>
    (await ask(server.gateway, '/completion', { ...body, prompt })).json.prompt;
  expect(await promptOf('the fox')).toBe('<s> the fox');
  const ids = (await ask(server.gateway, '/tokenize', { content: 'the fox' })).json.tokens;
  expect(await promptOf(ids)).toBe('the fox');
});

it('llama.cpp’s form tells what was asked for and taken', async () => {
  const asked = { ...body, seed: 7, temperature: 0.5, response_fields: [] };
  const { json } = await ask(server.gateway, '/completion', asked);
  expect(json.generation_settings).toMatchObject({ seed: 7, temperature: 0.5, n_predict: 4, top_k: 40 });
});
