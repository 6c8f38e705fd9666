import { RocmForgeError } from '../shared/errors.js';
import type { ExecuteResponse } from '../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../shared/log.js';
import type { ExecutorSession } from './executor-link/executor-session.js';
import { encodeStep } from './executor-link/step-encoding.js';
import type { Supervisor } from './executor-link/supervisor.js';
import type { Generation } from './generation/generation.js';
import { Blame } from './scheduler/blame.js';
import { type PlannedSlice, Scheduler } from './scheduler/scheduler.js';
import type { Sequence } from './scheduler/sequence.js';

export interface EngineOptions {
  /** Steps under way at once: 2 hides the stream's round trip, 1 is the plain twin. */
  readonly pipelineDepth: number;
  /** The most requests that wait for a slot. */
  readonly maxQueuedRequests: number;
  /** The most prompt tokens of requests that wait. */
  readonly maxQueuedTokens: number;
  readonly prefixCache: boolean;
  /** For tests: check the books after every step and throw, rather than when nothing runs and log. */
  readonly checkEveryStep?: boolean | undefined;
  /** How long a reader may hold its stream up before it is given up; default 30 s. */
  readonly pauseLimitMs?: number | undefined;
}

const QUEUE_RETRY_MS = 1000;
const PAUSE_LIMIT_MS = 30_000;

/**
 * Runs generations: keeps the scheduler's steps under way at the executor and hands out what comes back.
 *
 * An executor's death is a preemption of everything. Generations stay; their sequences are computed again from the
 * tokens they have, by the next generation of the executor, and go on where they were.
 */
export class Engine {
  private scheduler: Scheduler | undefined;
  private session: ExecutorSession | undefined;
  private supervisor: Supervisor | undefined;
  private readonly generations = new Map<Sequence, Generation>();
  /** Sequences that came before the first executor had told what it can hold. */
  private early: Sequence[] = [];
  private stopped: RocmForgeError | undefined;
  private isDraining = false;
  private readonly blame = new Blame();
  readonly counters = { quarantined: 0, replayed: 0, nonFinite: 0 };
  private readonly pauses = new Map<Generation, NodeJS.Timeout>();
  /** Told of each sequence's first slot, and how long it waited for it. */
  onAdmitted: (waitedMs: number) => void = () => undefined;
  /** When the sequences came that never had a slot. */
  private readonly queuedAt = new Map<Sequence, number>();

  constructor(
    private readonly options: EngineOptions,
    private readonly log: Logger,
  ) {}

  /** Generations under way. */
  get active(): number {
    return new Set(this.generations.values()).size;
  }

  /** Takes no more generations; those under way go on. */
  stopAdmission(): void {
    this.stopped = new RocmForgeError('SHUTTING_DOWN', 'this gateway is shutting down');
    this.isDraining = true;
  }

  /** For tests and metrics. */
  get schedulerState(): Scheduler | undefined {
    return this.scheduler;
  }

  /** The supervisor is told of each completed step. */
  attach(supervisor: Supervisor): void {
    this.supervisor = supervisor;
  }

  /**
   * Queues a generation. Its sink hears of it from now on.
   *
   * @throws RocmForgeError `QUEUE_FULL`, `PROMPT_TOO_LONG`, or why nothing is served at all
   */
  submit(generation: Generation): void {
    if (this.stopped) throw this.stopped;
    const { promptIds, stop } = generation.parameters;
    const waiting = this.scheduler?.waitingCount ?? this.early.length;
    const waitingTokens = this.scheduler?.waitingTokens ?? 0;
    const { maxQueuedRequests, maxQueuedTokens } = this.options;
    if (waiting + generation.sequences.length > maxQueuedRequests || waitingTokens > maxQueuedTokens) {
      throw new RocmForgeError('QUEUE_FULL', `${waiting} sequences wait already, ${waitingTokens} tokens of prompts`, {
        retry_delay_ms: String(QUEUE_RETRY_MS),
      });
    }
    if (this.scheduler && !this.scheduler.canEverRun(promptIds.length + stop.maxTokens)) {
      throw new RocmForgeError('PROMPT_TOO_LONG', 'prompt and max_tokens together are more than the KV cache holds');
    }
    for (const sequence of generation.sequences) {
      this.generations.set(sequence, generation);
      this.queuedAt.set(sequence, performance.now());
      if (this.scheduler) this.scheduler.add(sequence);
      else this.early.push(sequence);
    }
    this.pump();
  }

  /** Ends a generation nobody listens to any more. */
  cancel(generation: Generation): void {
    generation.abandon();
    clearTimeout(this.pauses.get(generation));
    this.pauses.delete(generation);
    for (const sequence of generation.sequences) this.drop(sequence);
    this.pump();
  }

  /**
   * Stops computing for a generation whose reader does not keep up, or goes on. One that stays paused for
   * too long ends with `SLOW_READER`.
   */
  pause(generation: Generation, paused: boolean): void {
    for (const sequence of generation.sequences) sequence.paused = paused;
    clearTimeout(this.pauses.get(generation));
    this.pauses.delete(generation);
    if (paused) {
      const limitMs = this.options.pauseLimitMs ?? PAUSE_LIMIT_MS;
      const timer = setTimeout(() => {
        this.pauses.delete(generation);
        for (const sequence of generation.sequences) this.drop(sequence);
        generation.fail(new RocmForgeError('SLOW_READER', `the stream was not read for ${limitMs / 1000} s`));
      }, limitMs);
      this.pauses.set(generation, timer);
    }
    this.pump();
  }

  /** Ends a generation whose time is over: what it has is its answer. */
  expire(generation: Generation): void {
    for (const sequence of generation.sequences) {
      if (!this.generations.has(sequence)) continue;
      this.drop(sequence);
      generation.end(sequence, { reason: 'time_limit' });
    }
    this.pump();
  }

  /** A new executor generation serves. */
  serve(session: ExecutorSession): void {
    const { maxSequences, maxStepTokens, kvBlocks } = session.model;
    if (this.scheduler === undefined) {
      const { prefixCache } = this.options;
      this.scheduler = new Scheduler({ maxSequences, maxStepTokens, kvBlocks, prefixCache });
      this.scheduler.mayRun = (sequence) => this.blame.mayRun(sequence);
    }
    for (const sequence of this.early.splice(0)) this.scheduler.add(sequence);
    if (!this.isDraining) this.stopped = undefined;
    this.session = session;
    session.start({
      result: (response) => this.result(response),
      lost: (error) => this.supervisor?.sessionLost(session.generation, error),
    });
    this.pump();
  }

  /** The executor is gone. Whoever is proven to make it fault is ended; all others go on with the next. */
  lose(): void {
    this.session = undefined;
    const { scheduler } = this;
    if (!scheduler) return;
    this.counters.replayed += scheduler.runningCount;
    const suspicions = scheduler.slicesInFlight
      .filter(({ sequence }) => sequence.state !== 'ended')
      .map(({ sequence, position, count }) => ({ sequence, end: position + count }));
    scheduler.reset();
    const guilty = this.blame.faulted(suspicions);
    if (guilty !== undefined) this.quarantine(guilty);
  }

  /** No executor will come soon: everything under way ends with the error, and so does what comes until one does. */
  fail(error: RocmForgeError): void {
    this.stopped = error;
    for (const generation of new Set(this.generations.values())) generation.fail(error);
    for (const sequence of [...this.generations.keys()]) this.drop(sequence);
  }

  private quarantine(sequence: Sequence): void {
    const generation = this.generations.get(sequence);
    if (!generation) return;
    this.counters.quarantined += 1;
    this.log.error({ requestId: generation.parameters.requestId }, 'a request is quarantined');
    for (const other of generation.sequences) this.drop(other);
    generation.fail(
      new RocmForgeError('REQUEST_QUARANTINED', 'the executor faulted each time this request ran, also alone'),
    );
  }

  /** Ends a generation whose logits are no numbers: whatever came next would be made up. */
  private endNonFinite(generation: Generation): void {
    this.counters.nonFinite += 1;
    this.log.error({ requestId: generation.parameters.requestId }, 'logits are not finite');
    for (const sequence of generation.sequences) this.drop(sequence);
    generation.fail(
      new RocmForgeError(
        'NON_FINITE_LOGITS',
        'the model gives no finite logits for this request: a value overflows in it, or in its penalties and biases',
      ),
    );
  }

  private drop(sequence: Sequence): void {
    this.generations.delete(sequence);
    this.queuedAt.delete(sequence);
    this.blame.ended(sequence);
    this.early = this.early.filter((other) => other !== sequence);
    this.scheduler?.end(sequence);
  }

  private pump(): void {
    const { session, scheduler } = this;
    if (!session || !scheduler) return;
    // While a guilty request is searched, one step at a time: a fault then points at the step that was under way.
    while (scheduler.stepsInFlight < (this.blame.isSearching ? 1 : this.options.pipelineDepth)) {
      const plan = scheduler.plan();
      if (plan === undefined) return;
      session.submit(encodeStep(plan, session.generation));
      for (const { sequence } of plan.opens) this.tellAdmitted(sequence);
    }
  }

  private tellAdmitted(sequence: Sequence): void {
    const since = this.queuedAt.get(sequence);
    if (since === undefined) return;
    this.queuedAt.delete(sequence);
    this.onAdmitted(performance.now() - since);
  }

  private result(response: ExecuteResponse): void {
    const { scheduler } = this;
    if (!scheduler) return;
    const { slices, tokens } = scheduler.complete(response.outputs.map((output) => output.tokenId));
    this.supervisor?.stepCompleted();
    for (const { sequence } of slices) this.blame.progressed(sequence);
    this.pushPrompts(slices, response);
    for (const { sequence, index } of tokens) {
      const generation = this.generations.get(sequence);
      const output = response.outputs[index];
      if (!generation || !output) continue;
      if (output.nonFinite) {
        this.endNonFinite(generation);
        continue;
      }
      if (generation.push(sequence, output)) this.drop(sequence);
    }
    if (this.options.checkEveryStep) scheduler.check();
    else if (scheduler.stepsInFlight === 0 && scheduler.runningCount === 0) this.checkIdle(scheduler);
    this.pump();
  }

  /** Log probabilities of prompts come before the first token, in as many steps as the prompt took. */
  private pushPrompts(slices: readonly PlannedSlice[], { promptOutputs }: ExecuteResponse): void {
    let next = 0;
    for (const { sequence, position, count, sample, promptLogprobs } of slices) {
      if (!promptLogprobs) continue;
      const outputs = promptOutputs.slice(next, next + count - Number(sample));
      next += outputs.length;
      const generation = this.generations.get(sequence);
      if (generation && outputs.some(({ nonFinite }) => nonFinite)) this.endNonFinite(generation);
      else generation?.pushPrompt(position + 1, outputs);
    }
  }

  /** When nothing runs, the books can be checked for free. */
  private checkIdle(scheduler: Scheduler): void {
    try {
      scheduler.check();
    } catch (error) {
      this.log.error({ err: error }, 'the block books do not add up');
    }
  }
}
