import type { ServiceError } from '@grpc/grpc-js';
import { afterEach, expect, it, vi } from 'vitest';
import { MAX_ANSWER_TEXT_BYTES } from '../../src/gateway/request/limits.js';
import { GenerateRequest, type GenerateResponse } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';

let server: FakeGateway;
afterEach(() => server.stop());

const output = {
  logprobs: undefined,
  promptLogprobs: undefined,
  echo: true,
  includeSpecialTokens: false,
  promptText: false,
};
const asking = (includeSpecialTokens: boolean) =>
  request({
    text: 'the fox',
    stop: { maxTokens: 2, ignoreEos: true },
    output: { ...output, includeSpecialTokens },
  });

it('echoes the BOS of a prompt exactly where special tokens are asked for', async () => {
  server = await startFakeGateway();
  expect((await generate(server.client, asking(false))).text).toMatch(/^the fox/);
  expect((await generate(server.client, asking(true))).text).toMatch(/^<s> ?the fox/);
});

/** `Generate`, whose answer is one message. */
function unary(message: ReturnType<typeof request>): Promise<GenerateResponse | ServiceError> {
  return new Promise((resolve) =>
    server.client.generate(GenerateRequest.fromPartial(message), (error, answer) => resolve(error ?? answer)),
  );
}

it('refuses n times a long prompt before anything is computed, streamed or not', async () => {
  server = await startFakeGateway();
  const text = 'the fox '.repeat(400);
  const tokenizer = vi.spyOn(Buffer, 'byteLength');
  // The vocabulary is too small for a prompt of a megabyte: so it is measured as if it were one.
  tokenizer.mockImplementation((value) =>
    typeof value === 'string' && value.startsWith('the fox the') ? 1 << 20 : Buffer.from(String(value)).length,
  );
  try {
    const asked = (n: number) => request({ text, n, stop: { maxTokens: 2, ignoreEos: true }, output });
    for (const refused of [
      await unary(asked(5)),
      await generate(server.client, asked(5)).catch((error: ServiceError) => error),
    ]) {
      expect(errorInfo(refused as ServiceError)).toMatchObject({
        reason: 'INVALID_FIELD',
        metadata: { field: 'output.echo' },
      });
    }
    expect(server.executor.device?.steps ?? 0).toBe(0);
    expect(await generate(server.client, asked(4))).toMatchObject({ completions: { length: 4 } });
  } finally {
    vi.restoreAllMocks();
  }
});

it('ends an answer in one message whose texts become too long, and computes no further', async () => {
  server = await startFakeGateway();
  const measure = vi.spyOn(Buffer, 'byteLength');
  measure.mockImplementation((value) => (typeof value === 'string' ? value.length * (MAX_ANSWER_TEXT_BYTES / 100) : 0));
  try {
    const refused = await unary(request({ text: 'the fox', n: 2, stop: { maxTokens: 1000, ignoreEos: true } }));
    expect(errorInfo(refused as ServiceError)?.reason).toBe('MESSAGE_TOO_LARGE');
  } finally {
    vi.restoreAllMocks();
  }
  await expect.poll(() => server.gateway.replica.active).toBe(0);
  expect(server.executor.device?.steps).toBeLessThan(200);
});
