import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AbortResponse } from '../../../../src/shared/generated/vllm/control.js';
import { GenerateRequest as EngineRequest } from '../../../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import {
  FinishInfo_FinishReason as Finish,
  GenerateRequest,
  type GenerateResponse,
} from '../../../../src/shared/generated/vllm/inference.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { generate, request } from '../../../support/gateway.js';
import {
  engineGenerated,
  messagesOf,
  type ProtocolClients,
  protocolClients,
  unary,
  vllmGenerated,
} from '../../../support/protocols.js';

let server: FakeGateway;
/** Two who are not the same: over a socket file each connection is somebody. */
let clients: ProtocolClients;
let others: ProtocolClients;
beforeAll(async () => {
  server = await startFakeGateway({ stepMs: 5 });
  clients = protocolClients(server.address);
  others = protocolClients(server.address, { 'grpc.use_local_subchannel_pool': 1 });
});
afterAll(async () => {
  clients.close();
  others.close();
  await server.stop();
});

const long = (requestId: string) =>
  GenerateRequest.fromPartial({
    requestId,
    prompt: { $case: 'tokenIds', value: { ids: [260, 261] } },
    stopping: { maxNewTokens: 3000, ignoreEos: true },
    response: { outputTokenIds: true },
  });
const longOfEngine = (requestId: string, stream: boolean) =>
  EngineRequest.fromPartial({
    requestId,
    input: { $case: 'tokenized', value: { inputIds: [260, 261] } },
    samplingParams: { maxTokens: 3000, ignoreEos: true, n: 2 },
    stream,
  });
const abort = ({ control }: ProtocolClients, ...requestIds: string[]) =>
  unary<{ requestIds: string[] }, AbortResponse>(control.abort.bind(control), { requestIds });
const abortOfEngine = ({ engine }: ProtocolClients, ...requestIds: string[]) =>
  unary<{ requestIds: string[] }, AbortResponse>(engine.abort.bind(engine), { requestIds });
const isActive = (count: number) => expect.poll(() => server.gateway.replica.active).toBe(count);

describe('Abort', () => {
  it('ends a stream with what it has, and gives everything up', async () => {
    let seen = 0;
    const call = clients.inference.generateStream(long('a'));
    const streamed = messagesOf(call, () => ++seen === 10 && void abort(clients, 'a'));
    const { finishes, numTokens } = vllmGenerated(await streamed);
    expect(finishes).toMatchObject([{ index: 0, finishReason: Finish.ABORTED, numOutputTokens: numTokens }]);
    expect(numTokens).toBeGreaterThan(0);
    expect(numTokens).toBeLessThan(3000);
    await isActive(0);
  });

  it('ends a call that answers once with what it has', async () => {
    const { inference } = clients;
    const answer = unary<GenerateRequest, GenerateResponse>(inference.generate.bind(inference), long('b'));
    await isActive(1);
    await abort(clients, 'b');
    const { outputs } = await answer;
    expect(outputs?.finishInfo).toMatchObject({ finishReason: Finish.ABORTED, numOutputTokens: outputs?.numTokens });
    expect(outputs?.tokenIds).toHaveLength(outputs?.numTokens as number);
    await isActive(0);
  });

  it.each([true, false])('of VllmEngine ends all completions of a request that streams: %s', async (stream) => {
    const streamed = messagesOf(clients.engine.generate(longOfEngine('c', stream)));
    await isActive(1);
    await abortOfEngine(clients, 'c');
    const { completes } = engineGenerated(await streamed);
    expect(completes.map(({ index, finishReason }) => [index, finishReason])).toEqual([
      [0, 'abort'],
      [1, 'abort'],
    ]);
    await isActive(0);
  });

  it('ends all of one’s own requests that have the id, by whichever of the services', async () => {
    const streams = [
      messagesOf(clients.inference.generateStream(long('d'))),
      messagesOf(clients.inference.generateStream(long('d'))),
      messagesOf(clients.engine.generate(longOfEngine('d', true))),
    ];
    await isActive(3);
    await abort(clients, 'x', 'd');
    await Promise.all(streams);
    await isActive(0);
  });

  it('leaves alone what others run under the same id, and what nobody runs', async () => {
    const call = clients.inference.generateStream(long('e'));
    let seen = 0;
    const ended = messagesOf(call, () => {
      seen += 1;
    });
    await expect.poll(() => seen).toBeGreaterThan(3);
    await abort(others, 'e', '', 'nobody');
    await abortOfEngine(others, 'e');
    const before = seen;
    await expect.poll(() => seen).toBeGreaterThan(before + 3);
    await abort(clients, 'e');
    expect(vllmGenerated(await ended).finishes).toMatchObject([{ finishReason: Finish.ABORTED }]);
  });

  it('does not know a request that has ended, whatever way, or that our own service runs', async () => {
    const short = { ...long('f'), stopping: { ...long('f').stopping!, maxNewTokens: 2 } };
    await messagesOf(clients.inference.generateStream(short));
    const cancelled = clients.inference.generateStream(long('f'));
    cancelled.on('error', () => undefined);
    await new Promise((resolve) => cancelled.once('data', resolve));
    cancelled.cancel();
    await isActive(0);
    const ours = generate(
      server.client,
      request({ tokens: [260], requestId: 'f', stop: { maxTokens: 100, ignoreEos: true } }),
    );
    await isActive(1);
    await abort(clients, 'f');
    expect((await ours).tokenIds).toHaveLength(100);
  });

  it('knows a large request, which is translated in a thread, as any other', async () => {
    const large = longOfEngine('g', true);
    const input = { $case: 'tokenized' as const, value: { originalText: 'x'.repeat(17 * 1024), inputIds: [260, 261] } };
    const streamed = messagesOf(clients.engine.generate({ ...large, input }));
    await isActive(1);
    await abort(clients, 'g');
    const { completes } = engineGenerated(await streamed);
    expect(completes.map(({ finishReason }) => finishReason)).toEqual(['abort', 'abort']);
    await isActive(0);
  });
});
