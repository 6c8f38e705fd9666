import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { Engine } from '../../../src/gateway/replica/engine.js';
import type { ExecutorSession, SessionListener } from '../../../src/gateway/replica/link/executor-session.js';
import { Generation, type GenerationParameters } from '../../../src/gateway/request/generation.js';
import {
  type ExecuteRequest,
  ExecuteResponse,
  LoadedModel,
} from '../../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { smallBpe, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { greedyParameters } from '../../support/greedy-parameters.js';

const TOKENIZER = tokenizerOf(smallBpe());
const LOG = pino({ level: 'silent' });
const EVIDENCE = { reason: 'exit_86', isEvidence: true, isOutside: false, isFault: true };

/** An executor as an engine sees it: what it was sent, and answers that a test gives. */
class Session {
  readonly steps: ExecuteRequest[] = [];
  readonly epoch = 1n;
  readonly model: LoadedModel;
  private answered = 0;
  private listener: SessionListener | undefined;

  constructor(model: Partial<LoadedModel> = {}) {
    this.model = LoadedModel.fromPartial({
      ...{ maxSequences: 4, maxStepTokens: 64, kvBlocks: 100, vocabularySize: TOKENIZER.vocabularySize, maskIds: 12 },
      ...model,
    });
  }

  start(listener: SessionListener): void {
    this.listener = listener;
  }

  submit(step: ExecuteRequest): void {
    this.steps.push(step);
  }

  /** Steps that are under way. */
  get underWay(): readonly ExecuteRequest[] {
    return this.steps.slice(this.answered);
  }

  /** The oldest step under way comes back. */
  answer(): void {
    const step = this.steps[this.answered++] as ExecuteRequest;
    const outputs = step.slices.filter(({ sample }) => sample).map(({ slot }) => ({ slot, tokenId: 100 }));
    this.listener?.result(ExecuteResponse.fromPartial({ stepId: step.stepId, epoch: step.epoch, outputs }));
  }
}

/** An engine with requests of so many prompt tokens each, which it names by that. */
const engineWith = (...prompts: readonly number[]) => engineFor(prompts);

function engineFor(prompts: readonly number[], parameters: Partial<GenerationParameters> = {}) {
  const options = { pipelineDepth: 2, prefixCache: false, maxQueuedRequests: 10, maxQueuedTokens: 1000 };
  const nothing = () => undefined;
  let resumed = 0;
  const listener = {
    ...{
      stepCompleted: nothing,
      sessionLost: nothing,
      admitted: nothing,
      hasRoom: nothing,
      saved: nothing,
      savedReleased: async () => undefined,
    },
    resumed: () => resumed++,
  };
  const engine = new Engine({ ...options, checkEveryStep: true }, listener, LOG);
  const failed = new Map<number, string>();
  const generations: Generation[] = [];
  for (const tokens of prompts) {
    const context = {
      id: '',
      principal: 'a',
      peer: 'a',
      trace: undefined,
      deadline: Number.POSITIVE_INFINITY,
      arrivedAt: 0,
    };
    const generation = new Generation(
      { ...greedyParameters(new Uint32Array(tokens), 40), ...parameters },
      context,
      TOKENIZER,
      {
        ...{ chunk: nothing, progress: nothing, prompt: nothing, complete: nothing },
        error: ({ reason }) => failed.set(tokens, reason),
      },
    );
    engine.submit(generation);
    generations.push(generation);
  }
  return {
    ...{ engine, failed, generations },
    /** True if since the last call the engine has told that nothing interrupted waits any more. */
    hasResumed: (): boolean => {
      const told = resumed > 0;
      resumed = 0;
      return told;
    },
    /** The next executor. */
    serve: (model?: Partial<LoadedModel>): Session => {
      const session = new Session(model);
      engine.serve(session as unknown as ExecutorSession);
      return session;
    },
    /** It is lost in a way that says something about the steps under way. */
    fault: (): boolean => {
      engine.onExecutorLost();
      return engine.handleLoss(EVIDENCE);
    },
  };
}

/** The requests in a step that begins them all. */
const inStep = ({ opens }: ExecuteRequest): readonly number[] => opens.map(({ promptTokens }) => promptTokens);

describe('while the request is searched that makes the executor fault', () => {
  it('one step is under way at a time: a fault then points at it', () => {
    const { serve, fault } = engineWith(5, 6);
    expect(serve().underWay).toHaveLength(2);
    expect(fault()).toBe(false);
    expect(serve().underWay).toHaveLength(2);
    expect(fault()).toBe(false);
    // Twice is no accident: now halves run alone.
    const session = serve();
    for (const begun of [[5], [], [6]]) {
      expect(session.underWay.map(inStep)).toEqual([begun]);
      session.answer();
    }
  });

  it('and when all have got through, two are again', () => {
    const { serve, fault, failed } = engineWith(5, 6);
    for (let i = 0; i < 2; i++) {
      serve();
      fault();
    }
    const session = serve();
    for (let i = 0; i < 20; i++) session.answer();
    expect(session.underWay).toHaveLength(2);
    expect(failed.size).toBe(0);
  });

  it('the one that faults alone, and not without it, is quarantined, and nobody else', () => {
    const { serve, fault, failed } = engineWith(5, 6, 7);
    const GUILTY = 6;
    for (let faults = 0; faults < 6; faults++) {
      const session = serve();
      const slots = new Set<number>();
      for (let i = 0; i < 30 && session.underWay.length > 0; i++) {
        const [step] = session.underWay as [ExecuteRequest];
        for (const { slot, promptTokens } of step.opens) if (promptTokens === GUILTY) slots.add(slot);
        if (step.slices.some(({ slot }) => slots.has(slot))) break;
        session.answer();
      }
      if (failed.size > 0) break;
      expect(fault()).toBe(false);
    }
    expect(failed).toEqual(new Map([[GUILTY, 'REQUEST_QUARANTINED']]));
  });
});

it('has one step under way exactly while the executor’s prediction block computes a sequence', () => {
  const begun = (parameters: Partial<GenerationParameters>, predicts: boolean) =>
    engineFor([5, 6], parameters).serve({ predicts }).underWay.length;
  expect(begun({ predicts: true }, true)).toBe(1);
  expect(begun({ predicts: true }, false)).toBe(2);
  expect(begun({ predicts: false }, true)).toBe(2);
});

describe('a recovery is over', () => {
  it('when an executor serves, where nothing ran', () => {
    const { serve, engine, hasResumed } = engineWith();
    serve();
    hasResumed();
    engine.onExecutorLost();
    expect(hasResumed()).toBe(false);
    serve();
    expect(hasResumed()).toBe(true);
  });

  it('when everything interrupted has made a step, and not with the first of them', () => {
    const { serve, fault, hasResumed } = engineWith(5, 6);
    for (let i = 0; i < 2; i++) {
      serve();
      fault();
    }
    // While the guilty one is searched they run one after the other.
    const session = serve();
    hasResumed();
    const resumed = [[5], [], [6]].map((begun) => {
      expect(session.underWay.map(inStep)).toEqual([begun]);
      session.answer();
      return hasResumed();
    });
    expect(resumed).toEqual([false, false, true]);
  });

  it.each(['cancel', 'pause'] as const)('when what has made no step is not waited for: %s', (what) => {
    const { serve, engine, generations, hasResumed } = engineWith(5);
    serve().answer();
    engine.onExecutorLost();
    serve();
    hasResumed();
    if (what === 'pause') engine.pause(generations[0] as Generation, 'reader');
    else engine.cancel(generations[0] as Generation);
    expect(hasResumed()).toBe(true);
  });
});
