import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, type ServiceError } from '@grpc/grpc-js';
import { afterAll, describe, expect, it } from 'vitest';
import type { HostedModel } from '../../src/gateway/hosted-model.js';
import { modelStatus } from '../../src/gateway/model-status.js';
import { FileByteSource } from '../../src/lib/gguf/byte-source.js';
import { contentIdentity } from '../../src/lib/gguf/content-identity.js';
import { type GgufTensor, readGguf } from '../../src/lib/gguf/reader.js';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import { TokenizeRequest } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { LIVENESS } from '../../src/shared/grpc/health.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { startRocmforge } from '../support/command-line.js';
import { freePort } from '../support/free-port.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { typed } from '../support/gguf-builder.js';
import { writeRandomModel } from '../support/random-model.js';
import { firstOf, isFull } from '../support/run-size.js';
import { reasonOf, stream } from '../support/streamed.js';

const folder = () => mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const PAST = new Date('2026-01-01');
const TOKENS = 240;
const message = request({
  tokens: [1, 261, 265],
  sampling: { temperature: 0.8, seed: 11n },
  stop: { maxTokens: TOKENS, ignoreEos: true },
});

/** Longer than what is encoded at once, so that a thread reads the vocabulary from the file. */
const LONG = 'the old fox ran to the sea '.repeat(400);
const tokenize = (gateway: TestGateway, text: string) =>
  new Promise<readonly number[]>((resolve, reject) => {
    const input = { $case: 'text' as const, value: { text, parseSpecial: false, addSpecial: undefined } };
    gateway.client.tokenize({ ...TokenizeRequest.create(), input }, (error, response) =>
      error ? reject(error) : resolve(response.tokenIds),
    );
  });

/** Name of a change of the file, and the change. */
type Change = readonly [string, (file: string) => void];
/** Kills the executor before the change, after it, or never. */
const KILLS = ['after', 'before', 'never'] as const;
type Kill = (typeof KILLS)[number];

describe('the model file of a gateway that serves, and a kill −9 of its executor', () => {
  const original = readFileSync(writeRandomModel());
  // The same header and the same size: other weights alone.
  const otherWeights = readFileSync(writeRandomModel({ seed: 2 }));
  const otherVocabulary = readFileSync(
    writeRandomModel({
      metadata: {
        'tokenizer.ggml.scores': typed.arrayOf(
          typed.f32,
          Array.from({ length: 299 }, (_, i) => i),
        ),
      },
    }),
  );

  async function scene(change: (file: string) => void, kill: Kill = 'after') {
    const file = path.join(folder(), 'model.gguf');
    writeFileSync(file, original);
    utimesSync(file, PAST, PAST);
    const gateway = await startTestGateway(file, { stepDelayMs: 4, maxRestarts: 3 });
    try {
      const undisturbed = await generate(gateway.client, message);
      const long = await tokenize(await startTestGatewayOnce(), LONG);
      const streamed = await stream(gateway.client, message, {
        tokens: 40,
        call: () => {
          if (kill === 'before') process.kill(gateway.gateway.executorPid()!, 'SIGKILL');
          change(file);
          if (kill === 'after') process.kill(gateway.gateway.executorPid()!, 'SIGKILL');
        },
      });
      const common = streamed.tokenIds.filter((id, i) => id === undisturbed.tokenIds[i]).length;
      return {
        ...streamed,
        same: common === streamed.tokenIds.length,
        whole: streamed.tokenIds.length === TOKENS,
        next: await reasonOf(generate(gateway.client, message)),
        long: await tokenize(gateway, LONG).then(
          (ids) => (String(ids) === String(long) ? 'same ids' : 'other ids'),
          (error: ServiceError) => errorInfo(error)?.reason,
        ),
        generations: gateway.gateway.executorEpoch(),
        state: gateway.gateway.executorState(),
      };
    } finally {
      await gateway.stop();
    }
  }

  // One more gateway tells what the ids of a long prompt are: a thread that has started does not read the file again.
  let reference: TestGateway | undefined;
  afterAll(() => reference?.stop());
  async function startTestGatewayOnce(): Promise<TestGateway> {
    if (reference !== undefined) return reference;
    const file = path.join(folder(), 'reference.gguf');
    writeFileSync(file, original);
    reference = await startTestGateway(file);
    return reference;
  }

  const ended = {
    ...{ reason: 'MODEL_FILE_CHANGED', same: true, whole: false },
    ...{ next: 'MODEL_FILE_CHANGED', long: 'MODEL_FILE_CHANGED' },
  };
  const goesOn = { reason: undefined, same: true, whole: true, next: 'served', long: 'same ids', generations: 2 };

  const gone: readonly Change[] = [
    ['deleted', (file) => rmSync(file)],
    ['replaced by other weights under the same header', (file) => replace(file, otherWeights)],
    ['replaced by something that is no model', (file) => replace(file, Buffer.from('nothing'))],
    ['renamed away', (file) => renameSync(file, `${file}.old`)],
    ['replaced by a file of another vocabulary', (file) => replace(file, otherVocabulary)],
  ];
  it.each(firstOf(2, gone))('%s: everything continues from the file that was opened', async (_, change) => {
    expect(await scene(change)).toMatchObject({ ...goesOn, state: 'serving' });
  });

  const unchanged: readonly Change[] = [
    ['written with the same content', (file) => writeFileSync(file, original)],
    ['touched', (file) => utimesSync(file, new Date(), new Date())],
    [
      'restored with its times',
      (file) => {
        writeFileSync(file, original);
        utimesSync(file, PAST, PAST);
      },
    ],
  ];
  it.each(firstOf(1, unchanged))('%s: streams go on, and the model is served', async (_, change) => {
    for (const kill of ['never', 'after'] as const) {
      const seen = await scene(change, kill);
      expect(seen).toMatchObject({ ...goesOn, generations: expect.any(Number), state: 'serving' });
    }
  });

  it('touched again and again: no request is blamed', async () => {
    const file = path.join(folder(), 'model.gguf');
    copyFileSync(writeRandomModel(), file);
    const gateway = await startTestGateway(file, { stepDelayMs: 4, maxRestarts: 3 });
    try {
      const undisturbed = await generate(gateway.client, message);
      let seen = 0;
      for (let touch = 1; touch <= 4; touch++) {
        const streamed = await stream(gateway.client, message, {
          tokens: 20,
          call: () => utimesSync(file, new Date(), new Date()),
        });
        expect(streamed.tokenIds).toEqual(undisturbed.tokenIds);
        seen += streamed.tokenIds.length;
      }
      expect(seen).toBe(4 * TOKENS);
      expect(await gateway.gateway.metrics.registry.metrics()).not.toMatch(/quarantined_total\{.*\} [1-9]/);
    } finally {
      await gateway.stop();
    }
  });

  // Each change with one of the kills; the full tier runs all pairs.
  it.each<readonly [...Change, Kill]>([
    ['overwritten in place by other weights', (file) => writeFileSync(file, otherWeights), 'after'],
    ['overwritten in place by another vocabulary', (file) => writeFileSync(file, otherVocabulary), 'never'],
    ['truncated', (file) => truncateSync(file, original.length / 2), 'before'],
    ['emptied', (file) => truncateSync(file, 0), 'never'],
  ])('%s: what needs it ends by that reason, and no token is of another model', async (_name, change, own) => {
    for (const kill of isFull ? KILLS : [own]) {
      const seen = await scene(change, kill);
      expect(seen).toMatchObject(ended);
      expect(seen.state).not.toBe('serving');
    }
  });

  it('one byte of a weight changed, which no sample covers: no token is of the other weights', async () => {
    for (const kill of firstOf(1, ['never', 'after'] as const)) {
      expect(await scene(changeOneByte, kill)).toMatchObject(ended);
    }
    const timeBack = (file: string) => {
      changeOneByte(file);
      utimesSync(file, PAST, PAST);
    };
    expect(await scene(timeBack, 'before')).toMatchObject(ended);
  });

  it('liveness fails once other content was written, as a restart is what helps, and not at a touch', async () => {
    const file = path.join(folder(), 'model.gguf');
    writeFileSync(file, original);
    const metricsListen = `127.0.0.1:${await freePort()}`;
    const gateway = await startTestGateway(file, { metricsListen });
    const health = new HealthClient(gateway.address, credentials.createInsecure());
    const probe = async () => {
      const { status } = await fetch(`http://${metricsListen}/healthz`);
      const overGrpc = await new Promise((resolve) =>
        health.check({ service: LIVENESS }, (_error, answer) => resolve(answer?.status)),
      );
      return [status, overGrpc];
    };
    try {
      utimesSync(file, PAST, PAST);
      expect(await reasonOf(generate(gateway.client, message))).toBe('served');
      expect(await probe()).toEqual([200, HealthCheckResponse_ServingStatus.SERVING]);
      writeFileSync(file, otherWeights);
      expect(await reasonOf(generate(gateway.client, message))).toBe('MODEL_FILE_CHANGED');
      expect(await probe()).toEqual([503, HealthCheckResponse_ServingStatus.NOT_SERVING]);
      const status = modelStatus(gateway.gateway.models[0] as HostedModel);
      expect(status).toMatchObject({
        state: 'failed',
        admits: false,
        problem: expect.stringContaining('MODEL_FILE_CHANGED'),
      });
    } finally {
      health.close();
      await gateway.stop();
    }
  });

  it('overwritten in place, its time put back: its content tells at the next start', async () => {
    const forge = (file: string) => {
      writeFileSync(file, otherWeights);
      utimesSync(file, PAST, PAST);
    };
    expect(await scene(forge, 'before')).toMatchObject(ended);
  });

  it('replaced before an executor elsewhere starts anew: refused, the requests end by that reason', async () => {
    const own = folder();
    const file = path.join(own, 'model.gguf');
    writeFileSync(file, original);
    const address = `unix:${path.join(own, 'executor.sock')}`;
    const start = () =>
      startRocmforge(/executor listening/, 'executor', '--listen', address, '--device', 'host', '--step-delay-ms', '4');
    const first = await start();
    const gateway = await startTestGateway(file, { executor: { address }, maxRestarts: 50 });
    let second: Awaited<ReturnType<typeof start>> | undefined;
    try {
      const undisturbed = await generate(gateway.client, message);
      const streamed = await stream(gateway.client, message, {
        tokens: 40,
        call: () => {
          first.child.kill('SIGKILL');
          replace(file, otherWeights);
          void start().then((started) => {
            second = started;
          });
        },
      });
      expect(streamed.reason).toBe('MODEL_FILE_CHANGED');
      expect(undisturbed.tokenIds.slice(0, streamed.tokenIds.length)).toEqual(streamed.tokenIds);
      expect(await reasonOf(generate(gateway.client, message))).toBe('MODEL_FILE_CHANGED');
    } finally {
      await gateway.stop();
      second?.child.kill('SIGKILL');
    }
  });
});

/** Changes a byte of a tensor in place, outside of what {@link contentIdentity} looks at. */
function changeOneByte(file: string): void {
  const lookups: [from: number, to: number][] = [];
  const source = new FileByteSource(file);
  const noting = {
    ...{ name: source.name, size: source.size },
    read: (offset: number, length: number) => {
      lookups.push([offset, offset + length]);
      return source.read(offset, length);
    },
  };
  const { dataOffset, tensors } = readGguf(source);
  contentIdentity([{ source: noting, file: { dataOffset } }]);
  source.close();
  const { offset, bytes } = tensors.get('blk.0.ffn_down.weight') as GgufTensor;
  const at = Array.from({ length: bytes }, (_, i) => offset + i).find((place) =>
    lookups.every(([from, to]) => place < from || place >= to),
  );
  if (at === undefined) throw new Error(`each of the ${bytes} bytes is looked at`);
  const content = readFileSync(file);
  // A mantissa's bit: the weight stays a number.
  content[at] = (content[at] as number) ^ 1;
  writeFileSync(file, content);
}

/** Puts another file in its place, as a download that is renamed when it is whole. */
function replace(file: string, content: Uint8Array): void {
  writeFileSync(`${file}.new`, content);
  renameSync(`${file}.new`, file);
}
