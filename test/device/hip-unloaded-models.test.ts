import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Replica } from '../../src/gateway/replica/replica.js';
import { restoreEnvironment } from '../support/environment.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { whenever } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const CYCLES = 3;
const MIB = 1 << 20;
/** Tolerated difference. */
const SLACK_BYTES = 64 * MIB;

// Each process has a double of its own, so what an executor takes is seen, and what a card has left for others is not.
describe.skipIf(missing !== undefined)('of two models on a GPU one is unloaded and brought back', () => {
  const before = { ...process.env };
  const models = [1, 2].map((seed) => writeRandomModel({ type: 'F16', headDim: 64, seed }));
  let server: TestGateway;
  beforeAll(async () => {
    new HipDouble({ memoryBytes: 512 * MIB }).install();
    const [model = '', other = ''] = models;
    server = await startTestGateway(model, {
      ...{ modelName: 'chat', moreModels: [{ model: other, modelName: 'small' }] },
      ...{ executor: { spawn: { device: 'hip' } }, kvCacheType: 'f16', maxSequences: 0, maxStepTokens: 64 },
    });
  });
  afterAll(async () => {
    await server.stop();
    restoreEnvironment(before);
  });

  const replicaOf = (name: string) =>
    server.gateway.models.find(({ served }) => served.name === name)?.replicas[0] as Replica;
  const usedBytes = async (name: string) => Number((await replicaOf(name).deviceStats(5000))?.usedBytes);
  const tokens = async (model: string) => {
    const message = request({
      text: 'the fox',
      model,
      sampling: { temperature: 0 },
      stop: { maxTokens: 12, ignoreEos: true },
    });
    return (await generate(server.client, message)).tokenIds;
  };

  it('with the memory, the room and the tokens that it had, each time, and the other’s as they were', async () => {
    const state = async () => ({
      tokens: [await tokens('chat'), await tokens('small')],
      blocks: [replicaOf('chat').counts.kvBlocks, replicaOf('small').counts.kvBlocks],
    });
    const first = await state();
    const taken = [await usedBytes('chat'), await usedBytes('small')];
    // The double has memory, and the models take some of it.
    expect(Math.min(...taken)).toBeGreaterThan(MIB);
    for (let cycle = 0; cycle < CYCLES; cycle++) {
      const { pid } = replicaOf('small');
      server.gateway.models[1]?.router.unloadModel();
      await whenever(() => replicaOf('small').state === 'unloaded');
      expect(existsSync(`/proc/${pid}`)).toBe(false);
      expect(await usedBytes('small')).toBeNaN();
      expect(await state()).toEqual(first);
      const now = [await usedBytes('chat'), await usedBytes('small')];
      for (const [i, bytes] of now.entries()) {
        expect(Math.abs(bytes - (taken[i] as number)), `cycle ${cycle}`).toBeLessThanOrEqual(SLACK_BYTES);
      }
    }
  });
});
