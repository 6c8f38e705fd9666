import { readdirSync } from 'node:fs';
import { credentials } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import { type Generated, generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const STREAMS = 64;
const KILLS = 20;
const CHAT_TEMPLATE =
  '{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}';

const openFiles = () => readdirSync('/proc/self/fd').length;
const words = 'the old fox ran to the sea and the wind sang a long night '.split(' ');
const text = (seed: number, count: number) =>
  Array.from({ length: count }, (_, i) => words[(seed * 7 + i * i) % words.length]).join(' ');
const SHARED_PREFIX = text(1, 110);

/** Greedy and seeded, chat and text, with log probabilities, half of them behind one long common prefix. */
function message(i: number) {
  const prompt = (i % 2 === 0 ? SHARED_PREFIX : '') + text(i, 4 + (i % 13));
  const chat = {
    $case: 'chat' as const,
    value: {
      messages: [{ role: 'user', content: prompt, name: '', toolCalls: [], toolCallId: '' }],
      tools: [],
      addGenerationPrompt: true,
    },
  };
  return request({
    ...(i % 3 === 0 ? { input: chat } : { text: prompt }),
    sampling: { temperature: i % 4 === 0 ? 0 : 0.9, seed: BigInt(i), topP: i % 5 === 0 ? 0.9 : undefined },
    stop: { maxTokens: 60 + (i % 40), ignoreEos: true, strings: i % 7 === 0 ? ['sea the'] : [] },
    output: { logprobs: i % 2, promptLogprobs: undefined, echo: false, includeSpecialTokens: false },
  });
}

const seen = ({ tokenIds, text: written, logprobs, complete }: Generated) => ({
  tokenIds,
  written,
  logprobs,
  finish: complete?.finishReason,
  match: complete?.stopMatch,
});

it(`${STREAMS} streams survive ${KILLS} kills of the executor, each with the tokens of a run without faults`, {
  timeout: 240_000,
}, async () => {
  const model = writeRandomModel({ contextLength: 1024, chatTemplate: CHAT_TEMPLATE });
  const server = await startTestGateway(model, {
    maxSequences: 24,
    maxStepTokens: 256,
    stepDelayMs: 10,
    maxRestarts: 100,
    stepTimeoutMs: 10_000,
  });
  try {
    const undisturbed = await Promise.all(
      Array.from({ length: STREAMS }, (_, i) => generate(server.client, message(i))),
    );
    await new Promise((resolve) => setTimeout(resolve, 300));
    const filesBefore = openFiles();
    const gatewayPid = process.pid;

    const states = new Set<HealthCheckResponse_ServingStatus>();
    const health = new HealthClient(server.address, credentials.createInsecure());
    const watch = health.watch({ service: '' });
    watch.on('data', ({ status }) => states.add(status));
    watch.on('error', () => undefined);

    let left = STREAMS;
    const disturbed = Array.from({ length: STREAMS }, async (_, i) => {
      const answer = await generate(server.client, message(i));
      left -= 1;
      return answer;
    });
    let kills = 0;
    let random = 12345;
    while (kills < KILLS && left > 0) {
      random = (Math.imul(random, 1103515245) + 12345) >>> 0;
      await new Promise((resolve) => setTimeout(resolve, 30 + (random % 170)));
      const pid = server.gateway.executorPid();
      if (pid === undefined) continue;
      process.kill(pid, 'SIGKILL');
      kills += 1;
    }
    const answers = await Promise.all(disturbed);
    watch.cancel();
    health.close();

    expect(kills).toBe(KILLS);
    for (const [i, answer] of answers.entries()) {
      expect(seen(answer), `stream ${i}`).toEqual(seen(undisturbed[i] as Generated));
    }
    expect(server.gateway.engine.counters.quarantined).toBe(0);
    expect(process.pid).toBe(gatewayPid);
    const { SERVING, NOT_SERVING } = HealthCheckResponse_ServingStatus;
    expect(states).toEqual(new Set([SERVING, NOT_SERVING]));

    const scheduler = server.gateway.engine.schedulerState;
    await expect.poll(() => scheduler?.stepsInFlight).toBe(0);
    scheduler?.check();
    expect(scheduler?.blocks.freeCount).toBe(scheduler?.blocks.capacity);
    await expect.poll(openFiles, { timeout: 5000 }).toBeLessThanOrEqual(filesBefore + 1);
  } finally {
    await server.stop();
  }
});
