import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { seen } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

const TOKENS = 299;
const PADDED = 21;

// Qwen2.5 has 152,064 rows and 151,665 tokens; its GGUF lists names for the others, other conversions do not.
describe('a model with more rows in its vocabulary’s matrices than its tokenizer has tokens', () => {
  let padded: TestGateway;
  let plain: TestGateway;
  beforeAll(async () => {
    padded = await startTestGateway(writeRandomModel({ paddedRows: PADDED }));
    plain = await startTestGateway(writeRandomModel());
  });
  afterAll(async () => {
    await padded.stop();
    await plain.stop();
  });

  const output = { logprobs: 20, promptLogprobs: 5, echo: false, includeSpecialTokens: false, promptText: false };
  it.each([
    { temperature: 0, seed: 1n },
    { temperature: 50, seed: 5n },
    { temperature: 1, seed: 7n, topP: 0.9 },
  ])('computes what it computes without them, at temperature $temperature', async (sampling) => {
    const message = request({ tokens: [1, 270], sampling, stop: { maxTokens: 200, ignoreEos: true }, output });
    const [a, b] = [await generate(padded.client, message), await generate(plain.client, message)];
    expect(a.tokenIds).toHaveLength(200);
    expect(Math.max(...a.tokenIds)).toBeLessThan(TOKENS);
    expect(seen(a)).toEqual(seen(b));
  });

  it('takes no id of theirs, in prompts, biases or stops', async () => {
    const refusal = async (message: Parameters<typeof request>[0]) => {
      const error = await generate(padded.client, request(message)).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: status.INVALID_ARGUMENT });
      return errorInfo(error as Parameters<typeof errorInfo>[0])?.metadata.field;
    };
    expect(await refusal({ tokens: [1, TOKENS] })).toBe('tokens.ids');
    expect(await refusal({ tokens: [1], sampling: { logitBias: { [TOKENS + 3]: 100 } } })).toBe('sampling.logit_bias');
    expect(await refusal({ tokens: [1], stop: { tokenIds: [TOKENS] } })).toBe('stop.token_ids');
    expect(padded.gateway.executorEpoch()).toBe(1);
  });
});
