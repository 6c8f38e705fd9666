import type { Metadata, StatusObject } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { LOAD_REPORT_KEY } from '../../../../src/gateway/api/grpc/load-report.js';
import { GenerateRequest as EngineRequest } from '../../../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { GenerateRequest } from '../../../../src/shared/generated/vllm/inference.js';
import { OrcaLoadReport } from '../../../../src/shared/generated/xds/data/orca/v3/orca_load_report.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { request } from '../../../support/gateway.js';
import { type ProtocolClients, protocolClients } from '../../../support/protocols.js';

let server: FakeGateway;
let clients: ProtocolClients;
beforeAll(async () => {
  server = await startFakeGateway({ stepMs: 5, maxSequences: 2, maxQueuedRequests: 2 });
  clients = protocolClients(server.address);
});
afterAll(async () => {
  clients.close();
  await server.stop();
});

const ours = request({ tokens: [260], stop: { maxTokens: 2, ignoreEos: true } });
const long = request({ tokens: [260], stop: { maxTokens: 3000, ignoreEos: true } });

interface Ending {
  on(event: 'data', listener: () => void): unknown;
  on(event: 'error', listener: () => void): unknown;
  on(event: 'status', listener: (status: StatusObject) => void): unknown;
}
const trailersOf = (call: Ending): Promise<Metadata> =>
  new Promise((resolve) => {
    call.on('data', () => undefined);
    call.on('error', () => undefined);
    call.on('status', ({ metadata }) => resolve(metadata));
  });
const reportOf = (trailers: Metadata): Readonly<Record<string, number>> | undefined => {
  const [bytes] = trailers.get(LOAD_REPORT_KEY);
  return bytes instanceof Buffer ? OrcaLoadReport.decode(bytes).namedMetrics : undefined;
};

it('comes with the end of each generation, by whichever service', async () => {
  const vllm = GenerateRequest.fromPartial({ prompt: { $case: 'tokenIds', value: { ids: [260] } } });
  const engine = EngineRequest.fromPartial({
    input: { $case: 'tokenized', value: { inputIds: [260] } },
    samplingParams: { maxTokens: 2 },
  });
  const calls: Ending[] = [
    server.client.generateStream(ours),
    server.client.generate(ours, () => undefined),
    clients.inference.generateStream(vllm),
    clients.inference.generate(vllm, () => undefined),
    clients.engine.generate(engine),
  ];
  for (const trailers of await Promise.all(calls.map(trailersOf))) {
    const report = reportOf(trailers);
    expect(Object.keys(report ?? {}).sort()).toEqual(['kv_cache_usage_perc', 'num_requests_waiting']);
  }
});

it('tells how many requests wait and how full the KV cache is, also with what is refused', async () => {
  const begin = () => server.client.generateStream(long).on('error', () => undefined);
  const calls = [begin(), begin()];
  await expect.poll(() => server.gateway.replica.scheduler?.runningCount).toBe(2);
  calls.push(begin(), begin());
  await expect.poll(() => server.gateway.replica.scheduler?.waitingCount).toBe(2);
  const trailers = await trailersOf(server.client.generateStream(ours));
  const report = reportOf(trailers);
  expect(report?.num_requests_waiting).toBe(2);
  expect(report?.kv_cache_usage_perc).toBeGreaterThan(0);
  expect(report?.kv_cache_usage_perc).toBeLessThan(1);
  for (const call of calls) call.cancel();
  await expect.poll(() => server.gateway.replica.active).toBe(0);
});

it('comes with nothing that is no generation', async () => {
  expect(reportOf(await trailersOf(server.client.listModels({}, () => undefined)))).toBeUndefined();
});
