import { Client, credentials } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { AbortRequest, ControlService } from '../../src/shared/generated/vllm/control.js';
import {
  GenerateRequest as EngineRequest,
  GetLoadsRequest,
  VllmEngineService,
} from '../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { GenerateRequest, type GenerateResponse, InferenceService } from '../../src/shared/generated/vllm/inference.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { mutate } from '../support/mutations.js';
import { engineGenerated, messagesOf, protocolClients, vllmGenerated } from '../support/protocols.js';
import { Random } from '../support/random.js';
import { writeRandomModel } from '../support/random-model.js';
import { runs, seed } from '../support/run-size.js';

const MESSAGES = runs(10_000);
const CONCURRENT = 16;

const vllmRequest = GenerateRequest.fromPartial({
  requestId: 'a',
  prompt: { $case: 'tokenIds', value: { ids: [1, 270, 280] } },
  temperature: 0.8,
  sampling: { seed: 11n, topK: 20 },
  decoding: { logitBias: { 5: 1 } },
  stopping: { maxNewTokens: 60, ignoreEos: true, stopTokenIds: [290] },
  response: { outputTokenIds: true },
});
const engineRequest = EngineRequest.fromPartial({
  requestId: 'a',
  input: { $case: 'tokenized', value: { inputIds: [1, 270, 280] } },
  samplingParams: { temperature: 0.8, seed: 11, topK: 20, maxTokens: 60, ignoreEos: true, stopTokenIds: [290] },
  stream: true,
});

it('streams of the other protocols go on with the same ids after their executor was killed, twice', async () => {
  const server = await startTestGateway(writeRandomModel({ contextLength: 128 }), { stepDelayMs: 5 });
  const clients = protocolClients(server.address);
  const run = async (each: (message: GenerateResponse) => void) => {
    const [vllm, engine] = await Promise.all([
      messagesOf(clients.inference.generateStream(vllmRequest), each),
      messagesOf(clients.engine.generate(engineRequest)),
    ]);
    const { tokenIds, text, finishes } = vllmGenerated(vllm);
    return { tokenIds, text, finishes, engine: engineGenerated(engine).tokenIds };
  };
  try {
    const undisturbed = await run(() => undefined);
    expect(undisturbed.tokenIds.length).toBeGreaterThan(30);
    // Nothing is joined to the first token, and most of the others are to come.
    const killAt = [1, 20];
    let tokens = 0;
    const killed = await run(({ outputs }) => {
      tokens += outputs?.numTokens ?? 0;
      if (tokens < (killAt[0] ?? Number.POSITIVE_INFINITY)) return;
      killAt.shift();
      process.kill(server.gateway.executorPid() as number, 'SIGKILL');
    });
    expect(killed).toEqual(undisturbed);
    expect(server.gateway.executorEpoch()).toBeGreaterThanOrEqual(2);
    expect(server.gateway.faults.some(({ signal }) => signal === 'SIGKILL')).toBe(true);
  } finally {
    clients.close();
    await server.stop();
  }
});

const { generate: once, generateStream } = InferenceService;
const vllmShort = { ...vllmRequest, stopping: { ...vllmRequest.stopping!, maxNewTokens: 3 } };
const vllmText = GenerateRequest.fromPartial({
  prompt: { $case: 'text', value: 'the fox' },
  sampling: { numSequences: 2, topP: 0.5 },
  stopping: { maxNewTokens: 3, stopStrings: ['sea'] },
});
const engineShort = { ...engineRequest, samplingParams: { ...engineRequest.samplingParams!, maxTokens: 3 } };
const engineText = EngineRequest.fromPartial({
  input: { $case: 'text', value: 'the fox' },
  samplingParams: { n: 2, maxTokens: 2, logprobs: 2, promptLogprobs: 1, stop: ['sea'] },
});
const abort = AbortRequest.encode({ requestIds: ['a', 'b'] });

it.each([
  [
    'vllm.Inference',
    [
      [generateStream, GenerateRequest.encode(vllmShort)],
      [generateStream, GenerateRequest.encode(vllmText)],
      [once, GenerateRequest.encode(vllmShort)],
    ],
  ],
  [
    'vllm.Control',
    [
      [ControlService.abort, abort],
      [ControlService.getServerInfo, abort],
      [ControlService.getModelInfo, abort],
    ],
  ],
  [
    'VllmEngine',
    [
      [VllmEngineService.generate, EngineRequest.encode(engineShort)],
      [VllmEngineService.generate, EngineRequest.encode(engineText)],
      [VllmEngineService.abort, abort],
      [VllmEngineService.getLoads, GetLoadsRequest.encode({ include: ['core'] })],
    ],
  ],
] as const)(`%s takes ${MESSAGES} mutated messages and loses nothing`, async (_, cases) => {
  const server = await startTestGateway(writeRandomModel({ contextLength: 48 }), { maxQueuedRequests: 4096 });
  const raw = new Client(server.address, credentials.createInsecure());
  const random = new Random(seed(23));
  const seeds = cases.map(([{ path }, writer]) => ({ path, bytes: writer.finish() }));
  const codes = new Map<number, number>();
  let sent = 0;
  const send = (bytes: Buffer, path: string) =>
    new Promise<void>((resolve) => {
      const plain = (value: Buffer) => value;
      // A stream is what a unary call looks like to its server.
      const call = raw.makeServerStreamRequest(path, plain, plain, bytes);
      call.on('data', () => undefined);
      call.on('error', () => undefined);
      call.on('status', ({ code }) => {
        codes.set(code, (codes.get(code) ?? 0) + 1);
        resolve();
      });
    });
  const worker = async () => {
    while (sent++ < MESSAGES) {
      const { path, bytes } = seeds[sent % seeds.length] as (typeof seeds)[number];
      await send(mutate(bytes, random), path);
    }
  };
  try {
    await Promise.all(Array.from({ length: CONCURRENT }, worker));
    console.log('status codes', Object.fromEntries(codes));
    expect([...codes.values()].reduce((a, b) => a + b, 0)).toBeGreaterThanOrEqual(MESSAGES);
    // Both happen: what is changed is still a request, or is not.
    for (const code of [0, 3]) expect(codes.get(code)).toBeGreaterThanOrEqual(0.1 * MESSAGES);
    // A defect would say INTERNAL, or nothing until the call is given up.
    expect([...codes.keys()].filter((code) => [2, 4, 13, 14].includes(code))).toEqual([]);
    await expect.poll(() => server.gateway.replica.active).toBe(0);
    const scheduler = server.gateway.replica.scheduler;
    await expect.poll(() => scheduler?.stepsInFlight).toBe(0);
    scheduler?.check();
    expect(scheduler?.blocks.freeCount).toBe(scheduler?.blocks.capacity);
    expect(server.gateway.executorEpoch()).toBe(1);
    const { tokenIds } = await generate(
      server.client,
      request({ text: 'the', stop: { maxTokens: 3, ignoreEos: true } }),
    );
    expect(tokenIds).toHaveLength(3);
  } finally {
    raw.close();
    await server.stop();
  }
});
