import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import {
  ExecuteRequest,
  type ExecuteResponse,
  ExecutorServiceClient,
  LoadModelRequest,
  SlotOpen,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { packageVersion } from '../../src/shared/package.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { startFake } from './processes.js';

const STEPS_MS = 2000;
/** Steps that wait at the executor: more than any round trip needs. */
const QUEUED = 8;

/** Steps a second that the fake executor does when it never waits for work: `slots` slots that decode. */
export async function executorRate(slots: number, stepMs: number): Promise<number> {
  const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-rate-')), 'executor.sock')}`;
  const fake = await startFake({ listen: address, stepMs, kvBlocks: 100_000 });
  const client = new ExecutorServiceClient(address, credentials.createInsecure());
  const limits = { maxContext: 65_536, maxSequences: slots, maxStepTokens: 2048 };
  await new Promise((resolve, reject) =>
    client
      .loadModel({ ...LoadModelRequest.create(), epoch: 1n, version: packageVersion, ...limits })
      .on('data', () => undefined)
      .on('error', reject)
      .on('end', resolve),
  );
  const bytes = (values: readonly number[]) => Buffer.from(Uint32Array.from(values).buffer);
  const blocks = 1000;
  const call = client.execute();
  let stepId = 0;
  const send = (): void => {
    const position = stepId++;
    call.write({
      ...ExecuteRequest.create(),
      stepId: BigInt(stepId),
      epoch: 1n,
      opens:
        position > 0
          ? []
          : Array.from({ length: slots }, (_, slot) => ({
              ...SlotOpen.create(),
              slot,
              tokenIds: bytes([260]),
              promptTokens: 1,
              blockIds: bytes(Array.from({ length: blocks }, (_, i) => 1 + slot * blocks + i)),
              sampling: encodeSampling(NEUTRAL_SAMPLING),
            })),
      slices: Array.from({ length: slots }, (_, slot) => ({
        slot,
        position,
        count: 1,
        sample: true,
        promptLogprobs: false,
      })),
    });
  };
  let answered = 0;
  call.on('data', (_response: ExecuteResponse) => {
    answered += 1;
    send();
  });
  call.on('error', () => undefined);
  for (let i = 0; i < QUEUED; i++) send();
  await new Promise((resolve) => setTimeout(resolve, STEPS_MS / 4));
  const [from, since] = [answered, performance.now()];
  await new Promise((resolve) => setTimeout(resolve, STEPS_MS));
  const rate = (1000 * (answered - from)) / (performance.now() - since);
  call.cancel();
  client.close();
  await fake.stop();
  return rate;
}
