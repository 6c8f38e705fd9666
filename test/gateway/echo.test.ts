import { afterEach, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';

let server: FakeGateway;
afterEach(() => server.stop());

const output = { logprobs: undefined, promptLogprobs: undefined, echo: true, includeSpecialTokens: false };
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
