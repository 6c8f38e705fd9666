import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { writePooledEncoder } from '../support/encoder-answers.js';
import { startTestGateway } from '../support/gateway.js';
import { ask } from '../support/http.js';
import { killEachTime } from '../support/kill-run.js';
import type { RandomEncoderName } from '../support/random-encoders.js';
import { firstOf } from '../support/run-size.js';

const WORDS = ['the', 'fox', 'sea', 'and', 'ran', 'old', 'wind', 'sang', 'long', 'night'];
/** Short and long, by turns: some steps have several of them. */
const INPUTS = Array.from({ length: 96 }, (_, i) =>
  Array.from({ length: 3 + ((i * 37) % 100) }, (_, j) => WORDS[(i * 7 + j * j) % WORDS.length]).join(' '),
);

/** Hashes of all embeddings, which are requested at once. @param kills of the executor, 20 ms after it begins to serve each time */
async function run(name: RandomEncoderName, kills: number) {
  const server = await startTestGateway(writePooledEncoder(name, 'mean'), {
    ...{ modelName: 'embedder', httpListen: '127.0.0.1:0', kvCacheType: 'f32', maxSequences: 8, maxStepTokens: 160 },
    maxRestarts: 100,
    stepDelayMs: kills > 0 ? 20 : 0,
  });
  let left = INPUTS.length;
  try {
    const answers = INPUTS.map(async (input) => {
      const { status, json } = await ask(server.gateway, '/v1/embeddings', { model: 'embedder', input });
      expect([status, json.error]).toEqual([200, undefined]);
      left -= 1;
      return createHash('sha256').update(JSON.stringify(json.data[0].embedding)).digest('hex');
    });
    const killing = killEachTime(
      server,
      kills,
      () => 20,
      () => left === 0,
    );
    const hashes = await Promise.all(answers);
    return { hashes, ...(await killing) };
  } finally {
    await server.stop();
  }
}

describe('embeddings of an encoder whose executor is killed three times', () => {
  it.each(firstOf(2, ['bert', 'gemma-embedding', 'modern-bert', 'nomic-bert', 'jina-bert-v2'] as const))(
    '%s: the same bits',
    async (name) => {
      const plain = await run(name, 0);
      const killed = await run(name, 3);
      console.log(`${name}: ${killed.kills} kills, ${killed.inStep} in a step`);
      expect(killed.hashes).toEqual(plain.hashes);
      expect(new Set(plain.hashes).size).toBe(INPUTS.length);
      expect(killed.kills).toBe(3);
      expect(killed.inStep).toBeGreaterThan(0);
    },
  );
});
