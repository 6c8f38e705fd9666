import type { ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Constraint,
  type GenerateStreamResponse,
  OutputOptions,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { ask as askHttp } from '../support/http.js';
import { writeRandomFamily } from '../support/random-model.js';

/** Milliseconds that {@link slowSchema} takes at least: the prompts here take less. */
const LEAST_SLOW_MS = 50;

/** A schema of patterns whose automata are large; with a `depth` of 10 it is refused in the end, for its size. */
function slowSchema(of: string, depth = 8): object {
  const pattern = (i: number) => ({ type: 'string', pattern: `^(a|b)*a(a|b){${depth}}c${i}$` });
  return {
    type: 'object',
    properties: Object.fromEntries([...'abcdefghijkl'].map((x, i) => [`${of}${x}`, pattern(i)])),
  };
}
const constraintOf = (schema: object): Constraint => ({
  kind: { $case: 'jsonSchema', value: JSON.stringify(schema) },
});
const quick = (of: string): Constraint => constraintOf({ enum: Array.from({ length: 300 }, (_, i) => `${of}-${i}`) });
const PROMPT = Array.from({ length: 150 }, (_, i) => 3 + ((i * 31) % 250));
const ask = (constraint: Constraint, tokens: readonly number[] = PROMPT) =>
  request({ tokens: [...tokens], sampling: { temperature: 0.8, seed: 5n }, stop: { maxTokens: 30 }, constraint });
const counts = ({ gateway }: TestGateway) => gateway.replica.counts;

describe.each(['llama', 'qwen35', 'gemma3'] as const)('constraints that a gateway of %s translates', (family) => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(writeRandomFamily(family), { maxStepTokens: 64 });
  });
  afterAll(() => server?.stop());

  it('leave the tokens those behind a known constraint, though the prompt is computed before they are known', async () => {
    for (const [schema, length] of [
      [slowSchema('a'), 150],
      [slowSchema('b'), 128],
      [slowSchema('c'), 1],
      [{ enum: ['d', 'e', 'f'] }, 20],
    ] as const) {
      const message = ask(constraintOf(schema), PROMPT.slice(0, length));
      const first = await generate(server.client, message);
      expect(await generate(server.client, message)).toMatchObject({ tokenIds: first.tokenIds, text: first.text });
      expect(first.tokenIds.length).toBeGreaterThan(1);
    }
    expect(server.gateway.faults).toEqual([]);
    // Prompts were there before their masks.
    expect(counts(server).maskMisses).toBeGreaterThan(1);
  });

  it('leave them so beside others, and in several completions', async () => {
    const { client } = server;
    const many = ['e', 'f', 'g', 'h'].map((of) => ({ ...ask(quick(of)), n: 3 }));
    const together = await Promise.all(many.map((message) => generate(client, message)));
    for (const [i, message] of many.entries()) {
      const alone = await generate(client, message);
      expect(alone.completions.map(({ tokenIds }) => tokenIds)).toEqual(
        together[i]?.completions.map(({ tokenIds }) => tokenIds),
      );
    }
  });
});

describe('a constraint that is translated while the prompt is computed', () => {
  let server: TestGateway;
  beforeAll(async () => {
    const template = '{% for message in messages %}{{ message.content }}{% endfor %}';
    const model = writeRandomFamily('llama', { chatTemplate: template });
    server = await startTestGateway(model, { maxStepTokens: 64, httpListen: '127.0.0.1:0' });
    await generate(server.client, ask(quick('first')));
  });
  afterAll(() => server?.stop());
  /** Blocks that no sequence holds. */
  const isIdle = () => expect.poll(() => counts(server).running + counts(server).waiting).toBe(0);

  it('ends the call before anything of it is written, where it is refused in the end', async () => {
    const events: GenerateStreamResponse[] = [];
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, counts(server).running);
    }, 1);
    const error = await new Promise<ServiceError>((resolve) => {
      // Log probabilities of the prompt come before the first token.
      const call = server.client.generateStream({
        ...ask(constraintOf(slowSchema('p', 10)), PROMPT.slice(0, 10)),
        output: OutputOptions.fromPartial({ promptLogprobs: 1 }),
      });
      call.on('data', (event: GenerateStreamResponse) => events.push(event));
      call.on('error', resolve);
    });
    clearInterval(watch);
    expect(errorInfo(error)?.reason).toBe('CONSTRAINT_UNSUPPORTED');
    expect(events).toEqual([]);
    expect(most).toBe(1);
    await isIdle();
  });

  it('ends it so in every API, with or without a stream, with its status', async () => {
    const schema = slowSchema('q', 10);
    const messages = [{ role: 'user', content: 'a' }];
    const format = { type: 'json_schema', json_schema: { name: 'a', schema } };
    const bodies: Readonly<Record<string, object>> = {
      '/completion': { prompt: PROMPT, json_schema: schema, return_progress: true, n_predict: 5 },
      '/v1/completions': { prompt: PROMPT, response_format: format, max_tokens: 5 },
      '/v1/chat/completions': { messages, response_format: format },
      '/v1/responses': { input: 'a', text: { format: { type: 'json_schema', name: 'a', schema } } },
      '/v1/messages': { messages, max_tokens: 5, output_config: { format: { type: 'json_schema', schema } } },
      '/api/chat': { model: 'random', messages, format: schema },
    };
    for (const [path, body] of Object.entries(bodies)) {
      for (const stream of [true, false]) {
        let most = 0;
        const watch = setInterval(() => {
          most = Math.max(most, counts(server).running);
        }, 1);
        const response = await askHttp(server.gateway, path, { ...body, stream });
        clearInterval(watch);
        expect([path, response.status], JSON.stringify(response.json)).toEqual([path, 400]);
        expect(JSON.stringify(response.json)).toContain('20000 rules');
        expect([path, stream, most]).toEqual([path, stream, 1]);
      }
    }
    await isIdle();
  });

  it('leaves nothing running where its client leaves', async () => {
    const { client } = server;
    const gone = ['i', 'j', 'k', 'l'].map(
      (of) =>
        new Promise((resolve) => {
          const call = client.generateStream(ask(constraintOf(slowSchema(of))));
          call.on('error', resolve).on('data', () => undefined);
          setTimeout(() => call.cancel(), LEAST_SLOW_MS / 2);
        }),
    );
    await Promise.all(gone);
    await isIdle();
    expect((await generate(client, ask(quick('after')))).text).toMatch(/^"after-/);
  });

  it('continues with the next executor, where that of its prompt is killed', async () => {
    const { client, gateway } = server;
    const message = ask(constraintOf(slowSchema('n')));
    const disturbed = generate(client, message);
    await expect.poll(() => counts(server).running, { interval: 1 }).toBe(1);
    const epoch = gateway.executorEpoch();
    process.kill(gateway.executorPid() as number, 'SIGKILL');
    const { tokenIds } = await disturbed;
    expect(gateway.executorEpoch()).toBe(epoch + 1);
    expect((await generate(client, message)).tokenIds).toEqual(tokenIds);
  });

  it('holds up no other stream', async () => {
    const { client } = server;
    const free = request({ tokens: PROMPT, stop: { maxTokens: 5000, ignoreEos: true } });
    let tokens = 0;
    const call = client.generateStream(free);
    call.on('error', () => undefined);
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case === 'chunk') tokens += event.value.tokenIds.length;
    });
    await expect.poll(() => tokens).toBeGreaterThan(10);
    const misses = counts(server).maskMisses;
    const constrained = generate(client, ask(constraintOf(slowSchema('o'))));
    // Its prompt is computed, and it waits for its mask.
    await expect.poll(() => counts(server).maskMisses, { interval: 1 }).toBeGreaterThan(misses);
    const before = tokens;
    await constrained;
    expect(tokens - before).toBeGreaterThan(10);
    call.cancel();
  });
});

it('a slot of a sequence whose constraint is translated is another’s that waits', async () => {
  const server = await startTestGateway(writeRandomFamily('llama'), { maxStepTokens: 64, maxSequences: 1 });
  try {
    const { client } = server;
    const message = ask(constraintOf(slowSchema('s')));
    const ended: string[] = [];
    const constrained = generate(client, message).finally(() => ended.push('constrained'));
    await expect.poll(() => counts(server).maskMisses, { interval: 1 }).toBeGreaterThan(0);
    const free = request({ tokens: PROMPT.slice(0, 5), stop: { maxTokens: 5, ignoreEos: true } });
    await generate(client, free).finally(() => ended.push('free'));
    const { tokenIds } = await constrained;
    expect(ended).toEqual(['free', 'constrained']);
    expect((await generate(client, message)).tokenIds).toEqual(tokenIds);
  } finally {
    await server.stop();
  }
});
