import { Client, credentials, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { REFUSED_ENGINE_METHODS } from '../../../../src/gateway/api/grpc/engine-service.js';
import { REFUSED_CONTROL_METHODS } from '../../../../src/gateway/api/grpc/vllm-service.js';
import {
  HealthClient,
  HealthCheckResponse_ServingStatus as Serving,
} from '../../../../src/shared/generated/grpc/health/v1/health.js';
import type { ModelInfo, ServerInfo } from '../../../../src/shared/generated/vllm/control.js';
import { GenerateRequest as EngineRequest } from '../../../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import { GenerateRequest } from '../../../../src/shared/generated/vllm/inference.js';
import { packageVersion } from '../../../../src/shared/package.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { startTestGateway } from '../../../support/gateway.js';
import { messagesOf, type ProtocolClients, protocolClients, refusalOf, unary } from '../../../support/protocols.js';
import { writeRandomModel } from '../../../support/random-model.js';

let server: FakeGateway;
let clients: ProtocolClients;
beforeAll(async () => {
  server = await startFakeGateway({ maxSequences: 8 });
  clients = protocolClients(server.address);
});
afterAll(async () => {
  clients.close();
  await server.stop();
});

it('vllm.Control tells what the server is and has', async () => {
  const { control } = clients;
  const { kvBlocks, stepTokens, slots } = server.gateway.replica.counts;
  const info = await unary<object, ServerInfo>(control.getServerInfo.bind(control), {});
  expect(info).toMatchObject({
    engineVersion: packageVersion,
    apiVersion: 'vllm',
    parallelism: { tensorParallelSize: 1, pipelineParallelSize: 1, dataParallelSize: 1, worldSize: 1n },
    maxModelLen: 4096,
    kvBlockSize: 16,
    totalKvBlocks: BigInt(kvBlocks),
    maxRunningRequests: BigInt(slots),
    maxBatchedTokens: BigInt(stepTokens),
  });
  expect([kvBlocks, stepTokens, slots].every((count) => count > 0)).toBe(true);
  const again = await unary<object, ServerInfo>(control.getServerInfo.bind(control), {});
  expect(again.instanceId).toBe(info.instanceId);
});

it('vllm.Control tells what the model takes', async () => {
  const { control } = clients;
  expect(await unary<object, ModelInfo>(control.getModelInfo.bind(control), {})).toMatchObject({
    modelId: 'random',
    servedModelName: 'random',
    supportsTextInput: true,
    supportsTokenIdsInput: true,
  });
});

it.each([
  ...REFUSED_CONTROL_METHODS.map((method) => ['vllm.Control', method] as const),
  ...REFUSED_ENGINE_METHODS.map((method) => ['vllm.grpc.engine.VllmEngine', method] as const),
])('%s refuses by its name what is not built: %s', async (service, method) => {
  const raw = new Client(server.address, credentials.createInsecure());
  const message = Buffer.from([0x0a, 1, 65]);
  const call = new Promise((resolve, reject) => {
    const path = `/${service}/${method}`;
    const plain = (value: Buffer) => value;
    raw.makeUnaryRequest(path, plain, plain, message, (error, value) => (error ? reject(error) : resolve(value)));
  });
  const refusal = { code: status.UNIMPLEMENTED, reason: 'NOT_IMPLEMENTED', field: method };
  expect(await refusalOf(call)).toEqual(refusal);
  raw.close();
});

it.each(['vllm.Inference', 'vllm.Control', 'vllm.grpc.engine.VllmEngine'])('has health of %s', async (service) => {
  const health = new HealthClient(server.address, credentials.createInsecure());
  const { status } = await unary<{ service: string }, { status: Serving }>(health.check.bind(health), { service });
  expect(status).toBe(Serving.SERVING);
  health.close();
});

it('refuses a request of more bytes than a method takes', async () => {
  const { control } = clients;
  const requestIds = Array.from({ length: 100 }, (_, i) => `request-${i}`.padEnd(64, 'x'));
  expect(await refusalOf(unary(control.abort.bind(control), { requestIds }))).toMatchObject({
    reason: 'MESSAGE_TOO_LARGE',
  });
  const text = 'x'.repeat(3 << 20);
  const generations = [
    messagesOf(
      clients.inference.generateStream(GenerateRequest.fromPartial({ prompt: { $case: 'text', value: text } })),
    ),
    messagesOf(clients.engine.generate(EngineRequest.fromPartial({ input: { $case: 'text', value: text } }))),
  ];
  for (const generation of generations) {
    expect(await refusalOf(generation)).toMatchObject({ reason: 'MESSAGE_TOO_LARGE' });
  }
});

it.each([
  ['tensor', { tensorParallelSize: 2, pipelineParallelSize: 1 }],
  ['layer', { tensorParallelSize: 1, pipelineParallelSize: 2 }],
] as const)('vllm.Control tells over how many devices a %s split is', async (split, sizes) => {
  const spawn = { device: 'host', split, gpus: [0, 1] } as const;
  const gateway = await startTestGateway(writeRandomModel({ hidden: 128 }), { executor: { spawn } });
  const splitClients = protocolClients(gateway.address);
  try {
    const { control } = splitClients;
    const { parallelism } = await unary<object, ServerInfo>(control.getServerInfo.bind(control), {});
    expect(parallelism).toMatchObject({ ...sizes, dataParallelSize: 1, worldSize: 2n });
  } finally {
    splitClients.close();
    await gateway.stop();
  }
});
