import { expect, it } from 'vitest';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { seen, whenever } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

const STREAMS = 8;
/** The first of them compute the last prompts. */
const STEPS = 20;

it.each([
  ['llama', 'f16', 16],
  ['llama', 'f32', 16],
  ['llama', 'q8_0', 64],
  ['gpt-oss', 'f16', 64],
] as const)(
  'after a fault of an executor that wrote nowhere else, streams go on where they were: %s, cache in %s, heads of %i',
  async (family, kvCacheType, headDim) => {
    const model = writeRandomModel({ family, headDim, contextLength: 1024 });
    const server = await startTestGateway(model, {
      ...{ maxSequences: STREAMS, stepDelayMs: 10, hasSpare: false, kvCacheType },
    });
    try {
      const run = (i: number) => {
        const text = `${'the old fox ran to the sea '.repeat(1 + i)}${i}`;
        const stop = { maxTokens: 200, ignoreEos: true };
        return generate(server.client, request({ text, sampling: { temperature: 0.8, seed: BigInt(i) }, stop }));
      };
      const all = () => Promise.all(Array.from({ length: STREAMS }, (_, i) => run(i).then(seen)));
      const counts = () => server.gateway.replica.counts;
      const undisturbed = await all();
      const streams = all();
      await whenever(() => counts().running === STREAMS);
      const { steps } = counts();
      await whenever(() => counts().steps > steps + STEPS);
      process.kill(server.gateway.executorPid() as number, 'SIGABRT');
      expect(await streams).toEqual(undisturbed);
      const { replayed, recomputedTokens, damagedBlocks, keptTokens } = counts();
      expect({ replayed, recomputedTokens, damagedBlocks }).toEqual({
        replayed: STREAMS,
        recomputedTokens: 0,
        damagedBlocks: 0,
      });
      expect(keptTokens).toBeGreaterThan(STREAMS * STEPS);
    } finally {
      await server.stop();
    }
  },
);
