import type { ServiceError } from '@grpc/grpc-js';
import { afterAll, describe, expect, it } from 'vitest';
import {
  type Constraint,
  type GenerateStreamResponse,
  OutputOptions,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { ask as askHttp } from '../support/http.js';
import { writeRandomFamily } from '../support/random-model.js';

/** Names whose schema takes longer to translate than a prompt takes to be computed. */
const names = (of: string) => Array.from({ length: 2000 }, (_, i) => `${of}-${(i * 7919) % 10007}-${i}`);
const schemaOf = (of: string, more: object = {}): Constraint => ({
  kind: { $case: 'jsonSchema', value: JSON.stringify({ enum: names(of), ...more }) },
});
const PROMPT = Array.from({ length: 150 }, (_, i) => 3 + ((i * 31) % 250));
const ask = (constraint: Constraint, tokens: readonly number[] = PROMPT) =>
  request({ tokens: [...tokens], sampling: { temperature: 0.8, seed: 5n }, stop: { maxTokens: 30 }, constraint });

describe.each(['llama', 'qwen35', 'gemma3'] as const)('constraints that a gateway of %s translates', (family) => {
  let server: TestGateway | undefined;
  const started = async () => {
    server ??= await startTestGateway(writeRandomFamily(family), { maxStepTokens: 64, httpListen: '127.0.0.1:0' });
    return server;
  };
  afterAll(() => server?.stop());

  it('cost the answer nothing: its prompt is computed meanwhile, and its tokens are those behind a known constraint', async () => {
    const { client, gateway } = await started();
    for (const [of, length] of [
      ['a', 150],
      ['b', 20],
      ['c', 129],
      ['d', 1],
    ] as const) {
      const message = ask(schemaOf(of), PROMPT.slice(0, length));
      const first = await generate(client, message);
      expect(await generate(client, message)).toMatchObject({ tokenIds: first.tokenIds, text: first.text });
      expect(first.tokenIds.length).toBeGreaterThan(3);
    }
    expect(gateway.faults).toEqual([]);
  });

  it('are the same beside others', async () => {
    const { client } = await started();
    const many = ['e', 'f', 'g', 'h'].map((of) => ask(schemaOf(of)));
    const together = await Promise.all(many.map((message) => generate(client, message)));
    for (const [i, message] of many.entries()) {
      expect((await generate(client, message)).tokenIds).toEqual(together[i]?.tokenIds);
    }
  });

  it('that are refused end the call before anything of it is written', async () => {
    const { client, gateway } = await started();
    const refused = { enum: names('z'), not: { pattern: '(?<=a)b' } };
    const constraint: Constraint = { kind: { $case: 'jsonSchema', value: JSON.stringify(refused) } };
    const events: GenerateStreamResponse[] = [];
    const error = await new Promise<ServiceError>((resolve) => {
      // Log probabilities of the prompt are written before the first token.
      const call = client.generateStream({
        ...ask(constraint, PROMPT.slice(0, 10)),
        output: OutputOptions.fromPartial({ promptLogprobs: 1 }),
      });
      call.on('data', (event: GenerateStreamResponse) => events.push(event));
      call.on('error', resolve);
    });
    expect(errorInfo(error)?.reason).toMatch(/^CONSTRAINT_/);
    expect(events).toEqual([]);
    const body = { prompt: PROMPT, json_schema: refused, stream: true, return_progress: true, n_predict: 5 };
    const answer = await askHttp(gateway, '/completion', body);
    expect(answer.status).toBe(400);
    expect(answer.json.error.message).toContain('(?<=a)b');
    await expect.poll(() => gateway.replica.counts.running).toBe(0);
  });
});

it('a client that leaves while its constraint is translated leaves nothing running', async () => {
  const server = await startTestGateway(writeRandomFamily('llama'), { maxStepTokens: 64 });
  try {
    const gone = Promise.all(
      ['i', 'j', 'k', 'l'].map(
        (of) =>
          new Promise((resolve) => {
            const call = server.client.generateStream(ask(schemaOf(of)));
            call.on('error', resolve);
            call.on('data', () => undefined);
            setTimeout(() => call.cancel(), 5);
          }),
      ),
    );
    await gone;
    await expect.poll(() => server.gateway.replica.counts.running + server.gateway.replica.counts.waiting).toBe(0);
    expect((await generate(server.client, ask(schemaOf('i')))).text).toMatch(/^"i-\d+/);
  } finally {
    await server.stop();
  }
});
