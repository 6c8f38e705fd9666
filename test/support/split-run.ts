import type { GatewayOptions } from '../../src/gateway/options.js';
import { generate, request, startTestGateway } from './gateway.js';
import { killEachTime, mixedRequest, seen } from './kill-run.js';
import { writeRandomModel } from './random-model.js';
import { byTier } from './run-size.js';

export const STREAMS = byTier({ quick: 12, default: 12, full: 32 });
export const KILLS = byTier({ quick: 2, default: 2, full: 3 });
/** Time limit of a step whose executor is stopped. */
const STOPPED_MS = 2000;
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

/** One whose answers' words repeat themselves soon, so that what is drafted is right now and then. @returns the file's path */
export const writeSplitModel = (): string =>
  writeRandomModel({ layers: 3, contextLength: 1024, chatTemplate: CHAT_TEMPLATE });

/** All streams, with so many kills of the executor; SIGSTOP: it is stopped for longer than a step may take. */
export async function runStreams(
  model: string,
  spawn: Extract<GatewayOptions['executor'], { spawn: object }>['spawn'],
  kills: number,
  signal: 'SIGKILL' | 'SIGSTOP' = 'SIGKILL',
) {
  const server = await startTestGateway(model, {
    executor: { spawn: { ...spawn, stepDelayMs: kills > 0 ? 10 : undefined } },
    ...(signal === 'SIGSTOP' && { stepTimeoutMs: STOPPED_MS }),
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
      signal,
    );
    const all = (await Promise.all(answers)).map(seen);
    const { draftTokens, acceptedDraftTokens } = server.gateway.replica.counts;
    return { all, ...(await killed), draftTokens, acceptedDraftTokens, faults: [...server.gateway.faults] };
  } finally {
    await server.stop();
  }
}
