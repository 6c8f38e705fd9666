import { describe, expect, it } from 'vitest';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { killEachTime, mixedRequest, seen } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

const STREAMS = 32;
const KILLS = 3;
const CHAT_TEMPLATE = '{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:';
const FORM = {
  type: 'object',
  properties: {
    names: { type: 'array', items: { enum: ['alpha', 'beta'] }, maxItems: 4 },
    isKnown: { type: 'boolean' },
  },
  required: ['names', 'isKnown'],
  additionalProperties: false,
};

/** Every option that a replay has to get right; answers of a form, which masks decide late; prompts that repeat themselves. */
function requestOf(i: number) {
  if (i % 4 === 1) {
    const constraint = { kind: { $case: 'jsonSchema' as const, value: JSON.stringify(FORM) } };
    const stop = { maxTokens: 60 };
    return request({ tokens: [5, 6, 7, i + 3], constraint, sampling: { temperature: 1, seed: BigInt(i) }, stop });
  }
  if (i % 4 === 2) {
    const part = Array.from({ length: 8 }, (_, at) => 3 + ((i * 31 + at * at) % 250));
    const stop = { maxTokens: 80, ignoreEos: true };
    return request({ tokens: [...part, ...part, ...part], sampling: { temperature: 0, seed: 1n }, stop });
  }
  return mixedRequest(i);
}

// The answers' words repeat themselves soon, so that what is guessed is right now and then.
const model = writeRandomModel({ layers: 3, contextLength: 1024, chatTemplate: CHAT_TEMPLATE });

async function run(spawn: Extract<GatewayOptions['executor'], { spawn: object }>['spawn'], kills: number) {
  const server = await startTestGateway(model, {
    executor: { spawn: { ...spawn, stepDelayMs: kills > 0 ? 10 : undefined } },
    maxStepTokens: 256,
    maxRestarts: 100,
    speculate: 'lookup',
  });
  let left = STREAMS;
  try {
    const answers = Array.from({ length: STREAMS }, async (_, i) => {
      const answer = await generate(server.client, requestOf(i));
      left -= 1;
      return answer;
    });
    const killed = killEachTime(
      server,
      kills,
      (kill) => 30 + 40 * kill,
      () => left === 0,
    );
    const all = (await Promise.all(answers)).map(seen);
    const { guesses, acceptedGuesses } = server.gateway.replica.counts;
    return { all, ...(await killed), guesses, acceptedGuesses };
  } finally {
    await server.stop();
  }
}

describe('a model split between layers over two devices answers as on one', () => {
  it(`${STREAMS} streams of every kind, undisturbed and with ${KILLS} kills of the executor`, async () => {
    const one = await run({ device: 'host', threads: 2 }, 0);
    const split = { device: 'host', threads: 2, split: 'layer', gpus: [0, 1] } as const;
    const two = await run(split, 0);
    expect(two.all).toEqual(one.all);
    const killed = await run({ ...split, tensorSplit: [3, 1] }, KILLS);
    console.log(
      `${two.guesses} guesses, ${two.acceptedGuesses} of them right; ${killed.kills} kills, ${killed.inStep} in a step`,
    );
    expect(killed.all).toEqual(one.all);
    expect(killed.kills).toBe(KILLS);
    expect(two.acceptedGuesses).toBeGreaterThan(0);
  });
});
