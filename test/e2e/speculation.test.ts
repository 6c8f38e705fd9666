import { afterEach, expect, it, vi } from 'vitest';
import { SeededRandom } from '../../src/cli/bench/random.js';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { PredictionCost } from '../../src/gateway/replica/scheduler/prediction-cost.js';
import { StepCost } from '../../src/gateway/replica/scheduler/step-cost.js';
import type { GenerateStreamRequest } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type Generated, generate, request, startTestGateway } from '../support/gateway.js';
import { HipDouble } from '../support/hip-double.js';
import { writeRandomFamily, writeRandomModel } from '../support/random-model.js';
import { byTier, isFull, seed } from '../support/run-size.js';

const REQUESTS = byTier({ quick: 22, default: 22, full: 264 });
/** `hip`: the device of the tests, which simulates every thread. */
const DEVICE = process.env.ROCMFORGE_SPECULATION_DEVICE === 'hip' ? 'hip' : 'host';
/** Number of tokens of a third of a prompt and of an answer. */
const [PART, TOKENS] =
  DEVICE === 'hip'
    ? ([
        [4, 6],
        [30, 42],
      ] as const)
    : ([
        [4, 20],
        [40, 120],
      ] as const);
/** On the slow device answers are short, and of this many tokens unless something else is wished: they repeat themselves soon. */
const WORDS = 4;
const SEED = seed(20261122);
const CLIENTS = 6;
/** Bytes of a KV block of a layer with keys and values of 2 heads of so many f32. */
const blockBytes = (headDim: number) => 2 * 2 * 16 * headDim * 4;

interface Case {
  readonly model: string;
  readonly blockBytes: number;
  /** Accepted draft tokens of a request, at least. */
  readonly accepted: number;
  /** Default: prompt lookup. */
  readonly speculate?: 'mtp';
}

/** Weights with which a token alone decides what follows, nearly, and the prediction block predicts it. */
const MARKOV = {
  ...{ attn_output: 0.02, ffn_down: 0.02, ssm_out: 0.02, ffn_down_exps: 0.02, ffn_down_shexp: 0.02 },
  output: 10,
};

/** Models that repeat themselves: the second one says by its last token alone what comes next, nearly. */
const CASES: Readonly<Record<string, () => Case>> =
  DEVICE === 'hip'
    ? {
        llama: () => ({
          model: writeRandomModel({
            contextLength: 256,
            type: 'F16',
            scaled: { attn_output: 0.05, ffn_down: 0.05, output: 10 },
          }),
          ...{ blockBytes: 2 * blockBytes(16), accepted: 2 },
        }),
      }
    : {
        llama: () => ({
          model: writeRandomModel({ contextLength: 256 }),
          ...{ blockBytes: 2 * blockBytes(16), accepted: 2 },
        }),
        // States of draft tokens that were wrong are not written: the next slice replays the rows that were right.
        qwen35: () => ({
          model: writeRandomFamily('qwen35', { contextLength: 256 }),
          ...{ blockBytes: blockBytes(32), accepted: 1 },
        }),
        lfm2: () => ({
          model: writeRandomFamily('lfm2', { contextLength: 256 }),
          ...{ blockBytes: blockBytes(16), accepted: 1 },
        }),
        // The block behind the layers has keys and values, too.
        'qwen35 with its prediction block': () => ({
          model: writeRandomFamily('qwen35', { contextLength: 256, predicts: true, scaled: MARKOV }),
          ...{ blockBytes: 2 * blockBytes(32), accepted: 1, speculate: 'mtp' },
        }),
        'glm4moe with its prediction block': () => ({
          model: writeRandomFamily('glm4moe', { contextLength: 256, predicts: true, scaled: MARKOV }),
          ...{ blockBytes: 5 * blockBytes(32), accepted: 1, speculate: 'mtp' },
        }),
      };
/** Most of an answer of this form is decided by it. */
const FORM = {
  type: 'object',
  properties: {
    names: { type: 'array', items: { enum: ['alpha', 'beta'] }, maxItems: 4 },
    isKnown: { type: 'boolean' },
  },
  required: ['names', 'isKnown'],
  additionalProperties: false,
};
/** Options of a request in addition to its prompt; each pair comes up. */
const WISHES: readonly Parameters<typeof request>[0][] = [
  {},
  { sampling: { temperature: 0.7, topK: 20 } },
  { sampling: { temperature: 0.4, frequencyPenalty: 0.1, repetitionPenalty: 1.05 } },
  { sampling: { presencePenalty: 0.3, logitBias: { 7: 1, 9: -3 } } },
  { constraint: { kind: { $case: 'regex', value: '(ab|abc|[x-z]{2}){1,40}' } } },
  { constraint: { kind: { $case: 'jsonSchema', value: JSON.stringify(FORM) } } },
  { output: { logprobs: 3, promptLogprobs: undefined, echo: false, includeSpecialTokens: false, promptText: false } },
  { output: { logprobs: 0, promptLogprobs: 2, echo: true, includeSpecialTokens: true, promptText: false } },
  { stop: { strings: ['a', 'q!'], minTokens: 12 } },
  { stop: { tokenIds: [5, 105, 205], minTokens: 30 } },
  { n: 3 },
];

/** Prompts that repeat themselves, so that what follows is drafted often. */
function requests(): GenerateStreamRequest[] {
  const random = new SeededRandom(SEED);
  return Array.from({ length: REQUESTS }, (_, i) => {
    const part = Array.from({ length: random.integer(PART) }, () => random.integer([3, 298]));
    const [first, second] = [WISHES[i % WISHES.length], WISHES[Math.floor(i / WISHES.length) % WISHES.length]];
    const words = Array.from({ length: DEVICE === 'hip' ? WORDS : 0 }, () => [random.integer([3, 298]), 30]);
    const drawn = { temperature: i % 3 === 0 ? 0.8 : 0, seed: BigInt(i), logitBias: Object.fromEntries(words) };
    const sampling = { ...drawn, ...first?.sampling, ...second?.sampling };
    const ignoreEos = i % 4 > 0 && first?.constraint === undefined && second?.constraint === undefined;
    const stop = { ignoreEos, ...first?.stop, ...second?.stop, maxTokens: random.integer(TOKENS) };
    return request({ ...first, ...second, tokens: [...part, ...part, ...part], sampling, stop });
  });
}

interface Run {
  readonly answers: readonly Generated[];
  readonly draftTokens: number;
  readonly accepted: number;
  readonly predicted: number;
  readonly acceptedPredicted: number;
  readonly preemptions: number;
  readonly executors: number;
}

async function run(of: Case, options: Partial<GatewayOptions>, kills = 0): Promise<Run> {
  const server = await startTestGateway(of.model, {
    executor: { spawn: { device: DEVICE } },
    kvMemoryBytes: 600 * of.blockBytes,
    maxRestarts: 100,
    ...options,
  });
  let ended = 0;
  try {
    const left = requests().entries();
    const answers: Generated[] = [];
    const client = async (): Promise<void> => {
      for (const [i, message] of left) {
        answers[i] = await generate(server.client, message);
        ended += 1;
      }
    };
    const killer = async (): Promise<void> => {
      for (let i = 1; i <= kills; i++) {
        while (ended < (i * REQUESTS) / (kills + 1)) await new Promise((resolve) => setTimeout(resolve, 5));
        const pid = server.gateway.executorPid();
        if (pid !== undefined) process.kill(pid, 'SIGKILL');
      }
    };
    await Promise.all([killer(), ...Array.from({ length: CLIENTS }, client)]);
    const { draftTokens, acceptedDraftTokens: accepted, preemptions, executors } = server.gateway.replica.counts;
    const { predictedTokens: predicted, acceptedPredictedTokens: acceptedPredicted } = server.gateway.replica.counts;
    return { answers, draftTokens, accepted, predicted, acceptedPredicted, preemptions, executors };
  } finally {
    await server.stop();
  }
}

afterEach(() => vi.restoreAllMocks());

/** Prompt lookup, and predictions of a model with states; every kind of model where more is asked for. */
const RUN = isFull || DEVICE === 'hip' ? Object.keys(CASES) : ['llama', 'qwen35 with its prediction block'];

it.each(RUN)(
  'drafted, preempted, cached and killed runs of %s give the tokens, probabilities and ends of the plain one',
  async (family) => {
    if (DEVICE === 'hip') new HipDouble().install();
    // Whether a draft token pays would depend on the load of this machine: without measured times any does.
    vi.spyOn(StepCost.prototype, 'line', 'get').mockReturnValue(undefined);
    vi.spyOn(PredictionCost.prototype, 'tokensThatPay').mockImplementation((_load, most) => most);
    const of = CASES[family]!();
    const plain = await run(of, { speculate: 'off', prefixCache: false });
    expect([plain.draftTokens, plain.answers.length]).toEqual([0, REQUESTS]);
    const answerOf = ({ completions, promptLogprobs }: Generated) => ({
      promptLogprobs,
      completions: completions.map(({ tokenIds, text, logprobs, end }) => ({
        ...{ tokenIds, text, logprobs },
        ...{ reason: end?.finishReason, match: end?.stopMatch, tokens: end?.usage?.completionTokens },
      })),
    });
    /** A run whose answers are those of the plain one. */
    const same = async (name: string, options: Partial<GatewayOptions>, kills?: number): Promise<Run> => {
      const other = await run(of, options, kills);
      for (const [i, answer] of other.answers.entries()) {
        expect(answerOf(answer), `${name}, request ${i}`).toEqual(answerOf(plain.answers[i] as Generated));
      }
      console.log(
        `${DEVICE}, ${family}, ${name}: ${REQUESTS} requests, ${other.draftTokens} draftTokens, ${other.accepted} of them right; ${other.predicted} and ${other.acceptedPredicted} of them predicted`,
      );
      return other;
    };
    const { speculate = 'lookup' } = of;
    const runs = {
      drafted: await same('drafted', { speculate, prefixCache: false }),
      alone: await same('alone', { speculate, pipelineDepth: 1 }),
      preempted: await same('preempted', { speculate, kvMemoryBytes: 25 * of.blockBytes }),
      killed: await same('killed', { speculate }, 5),
    };
    const accepted = Object.values(runs).reduce((sum, each) => sum + each.accepted, 0);
    const draftTokens = Object.values(runs).reduce((sum, each) => sum + each.draftTokens, 0);
    console.log(
      `${DEVICE}, ${family}: ${4 * REQUESTS} requests, ${draftTokens} draftTokens, ${accepted} of them right`,
    );
    // The counts of each answer add up.
    for (const run of Object.values(runs)) {
      const usages = run.answers.flatMap(({ completions }) => completions.map(({ end }) => end?.usage));
      const sum = (count: 'proposedTokens' | 'acceptedTokens' | 'predictedTokens' | 'acceptedPredictedTokens') =>
        usages.reduce((total, usage) => total + (usage?.[count] ?? 0), 0);
      expect([sum('proposedTokens'), sum('acceptedTokens')]).toEqual([run.draftTokens, run.accepted]);
      expect([sum('predictedTokens'), sum('acceptedPredictedTokens')]).toEqual([run.predicted, run.acceptedPredicted]);
      // Prompt lookup has made some of the others.
      if (of.speculate === undefined) expect(run.predicted).toBe(0);
      else expect(run.acceptedPredicted).toBeGreaterThan(REQUESTS);
      expect(run.accepted).toBeGreaterThan(run.acceptedPredicted);
    }
    // Each run did what it is there for.
    for (const { accepted } of Object.values(runs)) expect(accepted).toBeGreaterThan(of.accepted * REQUESTS);
    expect(draftTokens).toBeGreaterThan(accepted);
    expect(runs.preempted.preemptions).toBeGreaterThan(5);
    expect(runs.killed.executors).toBe(6);
  },
);
