import { type ServiceError, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const POISON = 295;

describe('a request that makes the executor fault', () => {
  it.each(['abort', 'exit', 'sticky'])(
    'by %s is quarantined among 63 others within 8 restarts, and they finish',
    async (fault) => {
      const server = await startTestGateway(writeRandomModel(), {
        maxSequences: 64,
        maxRestarts: 20,
        stepTimeoutMs: 10_000,
        executor: { spawn: { device: 'host', plantFault: `${fault}@${POISON}` } },
      });
      try {
        const run = (i: number) =>
          generate(
            server.client,
            request({
              tokens: [1, 290 - (i % 20), 3 + i, ...(i === 40 ? [POISON] : [])],
              // The sequence that drew the poison would fault with it, too, where it is computed anew.
              sampling: { temperature: 0.7, seed: BigInt(i), logitBias: { [POISON]: -100 } },
              stop: { maxTokens: 20, ignoreEos: true },
            }),
          ).catch((error: ServiceError) => error);
        const answers = await Promise.all(Array.from({ length: 64 }, (_, i) => run(i)));
        const failed = answers.flatMap((answer, i) => ('code' in answer ? [i] : []));
        expect(failed).toEqual([40]);
        const error = answers[40] as ServiceError;
        expect(status[error.code]).toBe('INTERNAL');
        expect(errorInfo(error)?.reason).toBe('REQUEST_QUARANTINED');
        expect(server.gateway.replica.counts.quarantined).toBe(1);
        // The first executor, and one for each restart.
        expect(server.gateway.executorEpoch()).toBeLessThanOrEqual(1 + 8);
      } finally {
        await server.stop();
      }
    },
  );

  it('by hanging is found in the same way', async () => {
    const server = await startTestGateway(writeRandomModel(), {
      maxRestarts: 20,
      stepTimeoutMs: 400,
      executor: { spawn: { device: 'host', plantFault: `hang@${POISON}` } },
    });
    try {
      // Past the warm-up, so that a deadline from history applies.
      await generate(server.client, request({ text: 'the', stop: { maxTokens: 10, ignoreEos: true } }));
      const poisoned = generate(server.client, request({ tokens: [1, POISON], stop: { maxTokens: 5 } }));
      const error = await poisoned.then(
        () => undefined,
        (thrown: ServiceError) => thrown,
      );
      expect(error && errorInfo(error)?.reason).toBe('REQUEST_QUARANTINED');
    } finally {
      await server.stop();
    }
  });

  it('is not to blame when the executor faults without it too: it is told when to try again', async () => {
    const server = await startTestGateway(writeRandomModel(), {
      maxRestarts: 20,
      executor: { spawn: { device: 'host', plantFault: 'abort' } },
    });
    try {
      const error = await generate(server.client, request({ text: 'the', stop: { maxTokens: 5 } })).then(
        () => undefined,
        (thrown: ServiceError) => thrown,
      );
      expect(error && errorInfo(error)).toMatchObject({
        reason: 'EXECUTOR_UNAVAILABLE',
        metadata: { retry_delay_ms: '30000' },
      });
      expect(server.gateway.replica.counts.quarantined).toBe(0);
      expect(server.gateway.executorState()).toBe('failed');
      // Blamed, suspected, accused; and the control.
      expect(server.gateway.executorEpoch()).toBe(4);
    } finally {
      await server.stop();
    }
  });
});
