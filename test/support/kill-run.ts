import type { Usage } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type Generated, generate, request, startTestGateway, type TestGateway } from './gateway.js';
import type { RandomFamilyName } from './random-families.js';
import { layersOf, writeRandomModel } from './random-model.js';

export const CHAT_TEMPLATE =
  '{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}';
const words = 'the old fox ran to the sea and the wind sang a long night '.split(' ');
const text = (seed: number, count: number) =>
  Array.from({ length: count }, (_, i) => words[(seed * 7 + i * i) % words.length]).join(' ');
const SHARED_PREFIX = text(1, 110);

/** One request of the mix: every option of the API that a replay has to get right, alone and beside others. */
export function mixedRequest(i: number) {
  const prompt = (i % 2 === 0 ? SHARED_PREFIX : '') + text(i, 4 + (i % 13));
  const chat = {
    $case: 'chat' as const,
    value: {
      messages: [{ role: 'user', content: prompt, name: '', toolCalls: [], toolCallId: '', reasoning: '' }],
      tools: [],
      addGenerationPrompt: true,
      templateVariablesJson: '',
      continueFinalMessage: false,
    },
  };
  const isPenalized = i % 6 === 1;
  return request({
    ...(i % 3 === 0 ? { input: chat } : { text: prompt }),
    n: i % 16 === 5 ? 3 : 1,
    sampling: {
      temperature: i % 4 === 0 ? 0 : 0.9,
      seed: BigInt(i),
      topP: i % 5 === 0 ? 0.9 : undefined,
      topK: i % 7 === 0 ? 40 : 0,
      minP: i % 9 === 0 ? 0.02 : 0,
      ...(isPenalized && { repetitionPenalty: 1.2, frequencyPenalty: 0.3, presencePenalty: 0.2 }),
      logitBias: i % 10 === 3 ? { 262: 1.5, 270: -2 } : {},
    },
    stop: {
      maxTokens: 60 + (i % 40),
      ignoreEos: i % 8 !== 2,
      minTokens: i % 8 === 2 ? 20 : 0,
      strings: i % 7 === 0 ? ['sea the', 'the old fox ran to the sea and back'] : [],
      includeStopString: i % 14 === 0,
    },
    output: {
      logprobs: i % 4 === 1 ? 5 : undefined,
      promptLogprobs: i % 11 === 4 ? 2 : undefined,
      echo: i % 11 === 4,
      includeSpecialTokens: i % 13 === 6,
      promptText: false,
    },
  });
}

/** Parts of a run by which a client can distinguish it from another: not its duration, cache hits and draft tokens. */
export const seen = ({ completions, promptLogprobs }: Generated) => ({
  promptLogprobs,
  completions: completions.map(({ end, ...completion }) => ({
    ...completion,
    end: end && { ...end, usage: counted(end) },
  })),
});
export const counted = ({ usage }: { readonly usage?: Usage | undefined }) => ({
  promptTokens: usage?.promptTokens,
  completionTokens: usage?.completionTokens,
});

/** Resolves when it is so, looking at each turn of the event loop. */
export async function whenever(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Kills the executor in the first step that is under way this long after it begins to serve, each time anew, while `isOver`
 * says no: on a busy machine there may be none just then.
 */
export async function killEachTime(
  { gateway }: TestGateway,
  count: number,
  afterMs: (kill: number) => number,
  isOver: () => boolean,
  signal: 'SIGKILL' | 'SIGSTOP' = 'SIGKILL',
): Promise<{ readonly kills: number; readonly inStep: number }> {
  let killed: number | undefined;
  let inStep = 0;
  for (let kill = 0; kill < count; kill++) {
    const isNext = () => gateway.executorState() === 'serving' && gateway.executorPid() !== killed;
    await whenever(() => isOver() || isNext());
    if (isOver()) return { kills: kill, inStep };
    await wait(afterMs(kill));
    const isInStep = () => (gateway.replica.scheduler?.stepsInFlight ?? 0) > 0;
    await whenever(() => isOver() || isInStep() || gateway.executorState() !== 'serving');
    killed = gateway.executorPid();
    if (killed === undefined) continue;
    if (isInStep()) inStep += 1;
    process.kill(killed, signal);
  }
  return { kills: count, inStep };
}

/** Result of a run of many streams and kills. */
export interface KillRun {
  readonly kills: number;
  /** Kills that met a step under way. */
  readonly inStep: number;
  readonly undisturbed: readonly Generated[];
  readonly disturbed: readonly (Generated | Error)[];
}

/** A gateway for {@link killStreams}, on a model of the family that can chat. */
export function startForKills(
  family: RandomFamilyName = 'llama',
  options: Parameters<typeof startTestGateway>[1] = {},
): Promise<TestGateway> {
  // With a layer of each kind.
  const layers = ['qwen35', 'qwen3next', 'lfm2', 'gemma4', 'granitehybrid', 'nemotron_h_moe'].includes(family)
    ? layersOf(family)
    : 2;
  const model = writeRandomModel({ family, layers, contextLength: 1024, chatTemplate: CHAT_TEMPLATE });
  return startTestGateway(model, {
    maxSequences: 24,
    maxStepTokens: 256,
    stepDelayMs: 10,
    maxRestarts: 100,
    stepTimeoutMs: 10_000,
    ...options,
  });
}

/**
 * Runs the streams undisturbed and again under kills. The same seed kills at the same times after each start.
 *
 * @param between called when the undisturbed ones have ended
 */
export async function killStreams(
  server: TestGateway,
  streams: number,
  kills: number,
  seed: number,
  between: () => void,
  requestOf: (i: number) => ReturnType<typeof request> = mixedRequest,
): Promise<KillRun> {
  const run = (i: number) => generate(server.client, requestOf(i));
  const undisturbed = await Promise.all(Array.from({ length: streams }, (_, i) => run(i)));
  between();
  let left = streams;
  const disturbed = Array.from({ length: streams }, async (_, i) => {
    const answer = await run(i).catch((error: Error) => error);
    left -= 1;
    return answer;
  });
  let random = seed;
  const afterMs = () => {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0;
    return 5 + ((random >>> 8) % 120);
  };
  const killed = await killEachTime(server, kills, afterMs, () => left === 0);
  return { ...killed, undisturbed, disturbed: await Promise.all(disturbed) };
}
