import { credentials } from '@grpc/grpc-js';
import { afterEach, expect, it, vi } from 'vitest';
import { ExecutorSession } from '../../src/gateway/replica/link/executor-session.js';
import {
  type ExecuteRequest,
  ExecutorServiceClient,
  type GetDeviceStatsResponse,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

afterEach(() => vi.restoreAllMocks());

const TOKENS = 256;
const KILLED_AT = 200;

it.each([
  [100, 64],
  [300, 128],
  [37, 512],
])(
  `a prompt of %i tokens, steps of %i rows, a kill at token ${KILLED_AT} of ${TOKENS}: computed again in one go, and no token sampled again`,
  async (prompt, budget) => {
    const server = await startTestGateway(writeRandomModel({ contextLength: 1024 }), {
      maxStepTokens: budget,
      stepDelayMs: 3,
    });
    try {
      const submit = ExecutorSession.prototype.submit;
      const sent: ExecuteRequest[] = [];
      vi.spyOn(ExecutorSession.prototype, 'submit').mockImplementation(function (this: ExecutorSession, step) {
        sent.push(step);
        submit.call(this, step);
      });
      const message = request({
        tokens: Array.from({ length: prompt }, (_, i) => 3 + ((i * 31) % 250)),
        sampling: { temperature: 0 },
        stop: { maxTokens: TOKENS, ignoreEos: true },
      });
      let seen = 0;
      const tokens: number[] = [];
      const call = server.client.generateStream(message);
      call.on('data', ({ event }) => {
        if (event?.$case !== 'chunk') return;
        tokens.push(...event.value.tokenIds);
        if (seen < KILLED_AT && tokens.length >= KILLED_AT)
          process.kill(server.gateway.executorPid() as number, 'SIGKILL');
        seen = tokens.length;
      });
      await new Promise<void>((resolve, reject) => {
        call.on('error', reject);
        call.on('end', resolve);
      });
      const address = server.gateway.executorAddress() as string;
      const executor = new ExecutorServiceClient(address, credentials.createInsecure());
      const stats = () =>
        new Promise<GetDeviceStatsResponse>((resolve, reject) =>
          executor.getDeviceStats({}, (error, response) => (error ? reject(error) : resolve(response))),
        );
      const again = sent.filter(({ epoch, slices }) => epoch === sent.at(-1)?.epoch && slices.length > 0);
      await expect
        .poll(async () => Number((await stats()).steps))
        .toBe(sent.filter(({ epoch }) => epoch === sent.at(-1)?.epoch).length);
      executor.close();

      // A row that decodes is a single sampled one beyond the tokens that the slot was opened with.
      const known = (again[0]?.opens[0]?.tokenIds.length ?? 0) / 4;
      const prefills = again.filter(({ slices }) => slices.some(({ position }) => position < known));
      const decodes = again.length - prefills.length;
      const bound = 1 + Math.ceil((prompt + KILLED_AT) / budget);
      console.log(
        `prompt ${prompt}, budget ${budget}: ${prefills.length} prefill steps (at most ${bound}), ${decodes} decode steps (at most 57)`,
      );
      expect(tokens).toHaveLength(TOKENS);
      expect(known).toBeGreaterThanOrEqual(prompt + KILLED_AT - 1);
      expect(prefills.length).toBeLessThanOrEqual(bound);
      expect(decodes).toBeLessThanOrEqual(57);
      vi.restoreAllMocks();
      expect((await generate(server.client, message)).tokenIds).toEqual(tokens);
    } finally {
      await server.stop();
    }
  },
);
