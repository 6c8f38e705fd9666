import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { sharedPath } from '../support/shared-data.js';

interface ParityCase {
  readonly prompt: string;
  readonly prompt_tokens: number[];
  readonly tokens: number[];
  readonly top: [id: number, logprob: number][][];
}

const model = sharedPath('data/models/stories260K-f32.gguf');
const parity = sharedPath('data/parity/stories260K-f32.json');
const cases: ParityCase[] = parity ? JSON.parse(readFileSync(parity, 'utf8')).cases : [];

describe.skipIf(!model || !parity)('a trained model, through gateway and executor, against llama.cpp', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(model as string);
  });
  afterAll(() => server?.stop());

  it.each(cases)('continues "$prompt" with the same 64 tokens and the same probabilities', async (expected) => {
    const answer = await generate(
      server.client,
      request({
        text: expected.prompt,
        sampling: { temperature: 0 },
        stop: { maxTokens: expected.tokens.length, ignoreEos: true },
        output: { logprobs: 5, promptLogprobs: undefined, echo: false, includeSpecialTokens: false, promptText: false },
      }),
    );
    expect(answer.tokenIds).toEqual(expected.tokens);
    expect(answer.complete?.usage?.promptTokens).toBe(expected.prompt_tokens.length);
    expect(answer.logprobs).toHaveLength(expected.tokens.length);
    expected.top.forEach((top, i) => {
      const actual = answer.logprobs[i];
      expect(actual?.top.map((entry) => entry.tokenId)).toEqual(top.map(([id]) => id));
      top.forEach(([, logprob], k) => {
        expect(Math.abs((actual?.top[k]?.logprob ?? Number.NaN) - logprob)).toBeLessThanOrEqual(1e-4);
      });
      expect(actual?.logprob).toBe(actual?.top[0]?.logprob);
    });
  });
});
