import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { FakeExecutor, type FakeExecutorOptions } from '../doubles/fake-executor.js';
import { startTestGateway, type TestGateway } from './gateway.js';
import { writeRandomModel } from './random-model.js';
import type { RandomModelOptions } from './random-model-options.js';

/** The words of {@link writeRandomModel}'s vocabulary: no special tokens and no single bytes. */
export const FAKE_VOCABULARY = { first: 259, size: 299 };

const FIRST_BYTE_ID = 3;
const EOS_ID = 2;

/** The ids by which that vocabulary spells a text, a byte each, and its end. */
export const spelled = (text: string): number[] => [
  ...Array.from(Buffer.from(text), (byte) => FIRST_BYTE_ID + byte),
  EOS_ID,
];

/** A gateway in this process before a fake executor in this process, over real gRPC. */
export interface FakeGateway extends TestGateway {
  readonly executor: FakeExecutor;
}

export async function startFakeGateway(
  options: Partial<Omit<GatewayOptions, 'model'>> &
    Partial<FakeExecutorOptions> &
    Partial<Pick<FakeExecutor, 'info' | 'claims'>> & { readonly model?: RandomModelOptions } = {},
): Promise<FakeGateway> {
  const { kvBlocks = 1000, stepMs = 1, vocabulary = FAKE_VOCABULARY, script = [], lateMs, ...rest } = options;
  const { model, info, claims, ...gatewayOptions } = rest;
  const executor = new FakeExecutor({ vocabulary, kvBlocks, stepMs, script, ...(lateMs !== undefined && { lateMs }) });
  if (info) executor.info = info;
  if (claims) executor.claims = claims;
  const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'executor.sock')}`;
  await executor.listen(address);
  const file = writeRandomModel({ contextLength: 4096, ...model });
  const server = await startTestGateway(file, { executor: { address }, ...gatewayOptions });
  return {
    ...server,
    executor,
    stop: async () => {
      await server.stop();
      await executor.stop();
    },
  };
}
