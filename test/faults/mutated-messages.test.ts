import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Client, credentials } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { readServedModel } from '../../src/gateway/request/served-model.js';
import {
  ExecuteRequest,
  ExecutorServiceClient,
  ExecutorServiceService,
  KvCacheType,
  LoadModelRequest,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { GenerateStreamRequest, InferenceServiceService } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { MAX_MESSAGE_BYTES } from '../../src/shared/grpc/message-bytes.js';
import { packageVersion } from '../../src/shared/package.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { decodes, mutate } from '../support/mutations.js';
import { Random } from '../support/random.js';
import { writeRandomModel } from '../support/random-model.js';
import { runs, seed } from '../support/run-size.js';

/** Share of mutated messages that still decode, so that not only the decoder is tested: it is about 0.3. */
const LEAST_WELL_FORMED = 0.25;
const MESSAGES = runs(10_000);
const CONCURRENT = 32;

it(`the public API takes ${MESSAGES} mutated messages and loses nothing`, async () => {
  const server = await startTestGateway(writeRandomModel({ contextLength: 48 }), { maxQueuedRequests: 4096 });
  const raw = new Client(server.address, credentials.createInsecure());
  const { path: method, responseDeserialize } = InferenceServiceService.generateStream;
  const random = new Random(seed(7));
  const seeds = [
    request({
      text: 'the fox',
      sampling: { temperature: 0.5, seed: 3n, topK: 4 },
      stop: { maxTokens: 4, strings: ['sea'] },
    }),
    request({
      tokens: [1, 270, 280],
      n: 2,
      sampling: { topP: 0.5, logitBias: { 5: 1 } },
      stop: { maxTokens: 3, tokenIds: [9] },
    }),
    request({ text: 'a', stop: { maxTokens: 2, minTokens: 1 }, timeLimitMs: 50, priority: 1, requestId: 'x' }),
  ].map((message) => GenerateStreamRequest.encode(message).finish());
  const codes = new Map<number, number>();
  let wellFormed = 0;
  try {
    const send = (bytes: Buffer) =>
      new Promise<void>((resolve) => {
        const call = raw.makeServerStreamRequest(method, (value: Buffer) => value, responseDeserialize, bytes);
        call.on('data', () => undefined);
        call.on('error', () => undefined);
        call.on('status', ({ code }) => {
          codes.set(code, (codes.get(code) ?? 0) + 1);
          resolve();
        });
      });
    let sent = 0;
    const worker = async () => {
      while (sent++ < MESSAGES) {
        const bytes = mutate(seeds[sent % seeds.length] as Uint8Array, random);
        if (decodes(GenerateStreamRequest.decode, bytes)) wellFormed += 1;
        await send(bytes);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT }, worker));
    console.log('public API: status codes', Object.fromEntries(codes), 'well-formed', wellFormed);
    expect(wellFormed / MESSAGES).toBeGreaterThanOrEqual(LEAST_WELL_FORMED);
    expect([...codes.values()].reduce((a, b) => a + b, 0)).toBeGreaterThanOrEqual(MESSAGES);
    await expect.poll(() => server.gateway.replica.active).toBe(0);
    const scheduler = server.gateway.replica.scheduler;
    await expect.poll(() => scheduler?.stepsInFlight).toBe(0);
    scheduler?.check();
    expect(scheduler?.blocks.freeCount).toBe(scheduler?.blocks.capacity);
    expect(server.gateway.executorEpoch()).toBe(1);
    expect(
      (await generate(server.client, request({ text: 'the', stop: { maxTokens: 3, ignoreEos: true } }))).tokenIds,
    ).toHaveLength(3);
  } finally {
    raw.close();
    await server.stop();
  }
});

it(`an executor takes ${MESSAGES} mutated frames and runs the next good one`, async () => {
  const model = writeRandomModel({ contextLength: 64 });
  const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'executor.sock')}`;
  const { child } = await startRocmforge(/executor listening/, 'executor', '--listen', address);
  const client = new ExecutorServiceClient(address, credentials.createInsecure());
  const { path: method, responseDeserialize } = ExecutorServiceService.execute;
  const random = new Random(seed(11));
  let epoch = 0n;
  const load = () =>
    new Promise<void>((resolve, reject) => {
      epoch += 1n;
      const call = client.loadModel({
        ...LoadModelRequest.create(),
        path: model,
        epoch,
        version: packageVersion,
        kvCacheType: KvCacheType.F32,
        maxContext: readServedModel(model, {}).contextLength,
        maxSequences: 4,
        maxStepTokens: 64,
      });
      call.on('data', () => undefined);
      call.on('error', reject);
      call.on('end', resolve);
    });
  const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
  const goodFrame = (): ExecuteRequest =>
    ExecuteRequest.fromPartial({
      stepId: 1n,
      epoch,
      opens: [
        {
          slot: 1,
          tokenIds: words(1, 270, 280),
          promptTokens: 3,
          blockIds: words(1, 2),
          sampling: encodeSampling({ ...NEUTRAL_SAMPLING, temperature: 0.5, topP: 0.9, topK: 5, seed: 3n }),
          biasIds: [7],
          biasValues: [1],
        },
      ],
      slices: [{ slot: 1, position: 0, count: 3, sample: true }],
    });
  /** Frames on one stream until it ends or all are answered or ignored. @returns whether an answer came */
  const play = (frames: readonly Buffer[]) =>
    new Promise<boolean>((resolve) => {
      const call = client.makeBidiStreamRequest(method, (value: Buffer) => value, responseDeserialize);
      let answered = false;
      call.on('data', () => {
        answered = true;
      });
      call.on('error', () => undefined);
      call.on('status', () => resolve(answered));
      for (const frame of frames) call.write(frame);
      call.end();
    });
  let wellFormed = 0;
  let answers = 0;
  try {
    const FRAMES_A_STREAM = 10;
    for (let sent = 0; sent < MESSAGES; sent += FRAMES_A_STREAM) {
      await load();
      const good = ExecuteRequest.encode(goodFrame()).finish();
      const frames = Array.from({ length: FRAMES_A_STREAM }, () => mutate(good, random));
      for (const frame of frames) if (decodes(ExecuteRequest.decode, frame)) wellFormed += 1;
      if (await play(frames)) answers += 1;
    }
    console.log('executor: well-formed', wellFormed, 'streams with an answer', answers);
    expect(wellFormed / MESSAGES).toBeGreaterThanOrEqual(LEAST_WELL_FORMED);
    const encoded = (frame: ExecuteRequest) => Buffer.from(ExecuteRequest.encode(frame).finish());
    await load();
    expect(await play([encoded({ ...goodFrame(), epoch: epoch - 1n })])).toBe(false);
    await load();
    const tooLong = Buffer.alloc(MAX_MESSAGE_BYTES + 1);
    expect(await play([encoded(ExecuteRequest.fromPartial({ opens: [{ tokenIds: tooLong }] }))])).toBe(false);
    await load();
    expect(await play([encoded(goodFrame())])).toBe(true);
    expect(child.exitCode).toBeNull();
  } finally {
    client.close();
    await endProcess(child);
  }
});
