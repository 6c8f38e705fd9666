import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  GenerateRequest,
  type GenerateResponse,
} from '../../../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { fakeTokens } from '../../../doubles/fake-device.js';
import { FAKE_VOCABULARY, type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { type ProtocolClients, protocolClients } from '../../../support/protocols.js';

const PROMPT = [260, 261];
const TOKENS = 30_000;

let server: FakeGateway;
let clients: ProtocolClients;
beforeEach(async () => {
  const model = { contextLength: 65_536 };
  server = await startFakeGateway({ model, maxContext: 65_536, kvBlocks: 8192, stepMs: 0, maxSequences: 2 });
  clients = protocolClients(server.address);
});
afterEach(async () => {
  clients.close();
  await server.stop();
});

it('nothing is computed for a reader of another protocol who does not read, and all of it when he does', async () => {
  const call = clients.engine.generate(
    GenerateRequest.fromPartial({
      input: { $case: 'tokenized', value: { inputIds: PROMPT } },
      samplingParams: { maxTokens: TOKENS, ignoreEos: true },
      stream: true,
    }),
  );
  const ids: number[] = [];
  call.on('data', ({ response }: GenerateResponse) => {
    if (response?.$case === 'chunk') ids.push(...response.value.tokenIds);
  });
  const ended = new Promise((resolve, reject) => call.on('end', resolve).on('error', reject));
  await new Promise((resolve) => call.once('data', resolve));
  call.pause();
  const steps = () => server.executor.device?.steps ?? 0;
  await expect
    .poll(async () => {
      const before = steps();
      await new Promise((resolve) => setTimeout(resolve, 100));
      return steps() - before;
    })
    .toBe(0);
  expect(steps()).toBeLessThan(TOKENS);
  expect(server.gateway.replica.active).toBe(1);
  call.resume();
  await ended;
  expect(ids).toEqual(fakeTokens(PROMPT, TOKENS, FAKE_VOCABULARY));
});
