// One file because each rule here changes the same state: which requests are in flight on which executor. Decisions that do not need
// that state are in the files beside it.
import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import type {
  ExecuteResponse,
  LoadedModel,
  SlotOutput,
} from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../../shared/log.js';
import { logFields } from '../request/context.js';
import type { Generation } from '../request/generation.js';
import type { Backend, PausedBy } from '../request/runner.js';
import type { Sequence } from '../request/sequence.js';
import type { EngineListener, EngineOptions } from './engine-options.js';
import { InterruptedSequences } from './interrupted-sequences.js';
import { checkAnswer, countSaturated, promptOutputsOf, returningSlices } from './link/answer.js';
import type { ExecutorSession } from './link/executor-session.js';
import type { Loss } from './link/loss.js';
import { checkEncodable, encodeStep } from './link/step-encoding.js';
import { PROBE_INTERVAL_MS } from './link/supervision.js';
import { Masking } from './masking.js';
import { shuttingDown } from './model-loading.js';
import { PausedReaders } from './paused-readers.js';
import { hasRoomForMore, queueFull, roomFor } from './queue-limits.js';
import { newEngineCounters } from './replica-counts.js';
import { Blame, controlSequence, type Suspicion } from './scheduler/blame.js';
import type { StepTimes } from './scheduler/draft-policy.js';
import { PeerQueue } from './scheduler/peer-queue.js';
import { Scheduler, type SchedulerOptions } from './scheduler/scheduler.js';
import { type PlannedSlice, type StepResult, sampledSlices } from './scheduler/step-plan.js';
import { blockBytesOf, UnloadedContents } from './unloaded-contents.js';

const PAUSE_LIMIT_MS = 30_000;
/** Time that the next step waits for masks of the step in flight, if that takes at least the second duration. */
const MASKS_MS = 2;
const LONG_STEP_US = 8000;

/** A generation on its way from one engine to another. */
export interface Migration {
  readonly generation: Generation;
  readonly sequences: readonly {
    readonly sequence: Sequence;
    /** Time of arrival, if it never had a slot. */
    readonly queuedAt: number | undefined;
    /** Position at which it may have caused a fault of an executor. */
    readonly blamedFor: number | undefined;
  }[];
}

/**
 * Runs generations: submits the scheduler's steps to the executor and distributes their results.
 *
 * An executor's death is a preemption of all sequences. Generations stay: the next executor computes their sequences again from
 * the tokens they have, and they resume.
 */
export class Engine implements Backend {
  private scheduler: Scheduler | undefined;
  private session: ExecutorSession | undefined;
  /** Numerics fingerprint of the last executor. */
  private numerics: string | undefined;
  /** Id of the last executor's KV memory. */
  private memory: bigint | undefined;
  private masking: Masking | undefined;
  /** The next step waits for masks. */
  private waiting: NodeJS.Timeout | undefined;
  private readonly generations = new Map<Sequence, Generation>();
  /** Sequences that arrived before the first executor had reported its limits. */
  private readonly early = new PeerQueue();
  private stopped: RocmForgeError | undefined;
  private isDraining = false;
  private readonly blame = new Blame();
  /** Sequences in the steps of the lost executor, until its loss is explained. */
  private suspicions: readonly Suspicion[] = [];
  private readonly interrupted = new InterruptedSequences();
  readonly counters = newEngineCounters();
  /** Time of the last result, if another step was in flight then. */
  private busySince: number | undefined;
  private submittedAt = 0;
  private readonly paused: PausedReaders;
  private readonly unloaded: UnloadedContents;
  /** Times of arrival of sequences that never had a slot. */
  private readonly queuedAt = new Map<Sequence, number>();

  constructor(
    private readonly options: EngineOptions,
    private readonly listener: EngineListener,
    private readonly log: Logger,
  ) {
    this.paused = new PausedReaders(options.pauseLimitMs ?? PAUSE_LIMIT_MS, (generation, error) =>
      this.failGeneration(generation, error),
    );
    this.unloaded = new UnloadedContents(options.kvHostBytes ?? 0, listener);
  }

  /** Generations that have not ended. */
  get active(): number {
    return new Set(this.generations.values()).size;
  }

  /** Their sequences, with or without a slot. */
  get sequences(): number {
    return this.generations.size;
  }

  /** True if no more generations are accepted: the gateway drains. */
  get isClosed(): boolean {
    return this.isDraining;
  }

  /** Error that a new generation would get; undefined if they are accepted. */
  get refusal(): RocmForgeError | undefined {
    return this.stopped;
  }

  /** Drains: accepts no more generations; those that have not ended continue. */
  stopAdmission(): void {
    this.stopped = shuttingDown();
    this.isDraining = true;
  }

  /** For tests and metrics. */
  get schedulerState(): Scheduler | undefined {
    return this.scheduler;
  }

  submit(generation: Generation): void {
    if (this.stopped) throw this.stopped;
    const { promptIds, stop } = generation.parameters;
    for (const { options } of generation.sequences) checkEncodable(options);
    if (this.scheduler && !this.scheduler.canEverRun(promptIds.length + stop.maxTokens)) {
      throw new RocmForgeError('PROMPT_TOO_LONG', 'prompt and max_tokens together are more than the KV cache holds');
    }
    const queue = this.scheduler?.queue ?? this.early;
    const most = { requests: this.options.maxQueuedRequests, tokens: this.options.maxQueuedTokens };
    const slots = { count: this.scheduler?.slotCount ?? 0, free: this.freeSlots };
    const requestOf = (sequence: Sequence) => this.waitingRequest(sequence);
    for (const other of roomFor(generation, queue, requestOf, this.options, slots)) {
      this.failGeneration(other, queueFull({ sequences: queue.size, tokens: queue.tokens }, most, queue));
    }
    for (const sequence of generation.sequences) {
      this.queuedAt.set(sequence, performance.now());
      this.take(generation, sequence);
    }
    this.pump();
  }

  hasRoomForMore(principal: string, n: number): boolean {
    return hasRoomForMore(principal, n, this.scheduler?.queue ?? this.early, this.options);
  }

  private take(generation: Generation, sequence: Sequence): void {
    this.generations.set(sequence, generation);
    this.cancelSaving();
    sequence.options.constraint?.listen({
      ready: () => this.maskReady(generation, sequence),
      failed: (error) => this.failGeneration(generation, asRocmForgeError(error)),
      ...(sequence.drafter && { draftTokens: () => sequence.draftIds }),
    });
    if (this.scheduler) this.scheduler.add(sequence);
    else this.early.add(sequence);
  }

  /** Generations that another engine could take over: none of their sequences is in flight or suspect. */
  get movable(): readonly Generation[] {
    const held = new Set<Generation>();
    for (const [sequence, generation] of this.generations) {
      if (sequence.state !== 'waiting' || this.blame.isSuspect(sequence)) held.add(generation);
    }
    return [...new Set(this.generations.values())].filter((generation) => !held.has(generation));
  }

  /** Removes one of {@link movable}, for another engine to take over. */
  release(generation: Generation): Migration {
    this.paused.delete(generation);
    const moved = generation.sequences.filter((sequence) => this.generations.delete(sequence));
    return {
      generation,
      sequences: moved.map((sequence) => {
        const queuedAt = this.queuedAt.get(sequence);
        this.queuedAt.delete(sequence);
        this.interrupted.delete(sequence);
        if (this.scheduler) this.scheduler.withdraw(sequence);
        else this.early.remove(sequence);
        return { sequence, queuedAt, blamedFor: this.blame.takeOut(sequence) };
      }),
    };
  }

  /** Continues generations that other engines released. */
  takeOver(migrations: readonly Migration[]): void {
    for (const { generation, sequences } of migrations) {
      for (const { sequence, queuedAt, blamedFor } of sequences) {
        if (queuedAt !== undefined) this.queuedAt.set(sequence, queuedAt);
        if (blamedFor !== undefined) this.blame.takeOver(sequence, blamedFor);
        this.take(generation, sequence);
      }
      if (sequences.some(({ sequence }) => sequence.paused)) this.paused.add(generation);
    }
    this.pump();
  }

  /** True if a generation could ever run here, as far as is known. */
  canRun({ parameters: { promptIds, stop } }: Generation): boolean {
    return (
      (this.stopped === undefined || this.isDraining) &&
      (this.scheduler?.canEverRun(promptIds.length + stop.maxTokens) ?? true)
    );
  }

  /** Prompt tokens of a generation that are in the prefix cache. */
  findable({ sequences: [first] }: Generation): number {
    return first === undefined ? 0 : (this.scheduler?.findable(first) ?? 0);
  }

  /** The sequence's generation, if none of its sequences ever had a slot. */
  private waitingRequest(sequence: Sequence): Generation | undefined {
    const generation = this.generations.get(sequence);
    return generation?.sequences.every((other) => this.queuedAt.has(other)) ? generation : undefined;
  }

  cancel(generation: Generation): void {
    generation.abandon();
    this.paused.delete(generation);
    for (const sequence of generation.sequences) this.drop(sequence);
    this.pump();
  }

  /** A generation whose reader pauses it for too long fails with `SLOW_READER`. */
  pause(generation: Generation, by: PausedBy | undefined): void {
    for (const sequence of generation.sequences) sequence.paused = by !== undefined;
    if (by === 'reader') this.paused.add(generation);
    else this.paused.delete(generation);
    this.pump();
  }

  expire(generation: Generation): void {
    for (const sequence of generation.sequences) {
      if (!this.generations.has(sequence)) continue;
      this.drop(sequence);
      this.guard(generation, () => generation.end(sequence, { reason: 'time_limit' }));
    }
    this.pump();
  }

  /** Another executor serves. */
  serve(session: ExecutorSession): void {
    const isKept = this.keeps(session);
    this.failIfNumericsChanged(session.model.arithmetic);
    const { maxSequences, maxStepTokens, kvBlocks, window, windowBlocks, recurrent, stateSnapshots, draftTokens } =
      session.model;
    const windowed = window === 0 ? undefined : { window, blocks: windowBlocks };
    const { predicts, encoder: isEncoder } = session.model;
    const states = { isRecurrent: recurrent, isEncoder, snapshots: stateSnapshots, draftTokens, predicts };
    const { prefixCache } = this.options;
    const scheduler = this.schedulerFor({ maxSequences, maxStepTokens, kvBlocks, windowed, ...states, prefixCache });
    const isRestored = this.unloaded.restore(scheduler, session.model, isKept);
    if (isKept) {
      const mostCompared = session.info.platform === 'host' ? MOST_COMPARED.host : MOST_COMPARED.gpu;
      scheduler.keepContents({ ...blockBytesOf(session.model), mostCompared });
    } else if (!isRestored) scheduler.forgetContents();
    const { kvOutlives, sumsRows } = session.model;
    scheduler.checksums.isWanted = kvOutlives;
    // A sequence with states continues from snapshots.
    scheduler.openBlocks.isWanted = kvOutlives && sumsRows && !recurrent && !isEncoder && prefixCache !== false;
    for (const sequence of this.early.takeAll()) scheduler.add(sequence);
    if (this.blame.wantsControl) {
      const control = controlSequence(isEncoder);
      scheduler.add(control);
      this.blame.beginControl(control);
    }
    this.counters.restoredWeights += session.model.restoredWeights;
    this.clearFailure();
    this.session = session;
    this.masking = new Masking(session.model, (frame) => session.send(frame));
    session.start({
      result: (response) => this.result(response),
      lost: (error, isAnswer) => this.listener.sessionLost(session.epoch, error, isAnswer),
    });
    this.pump();
  }

  /** Accepts generations again after {@link fail}: an executor serves, or starts at the next request. */
  clearFailure(): void {
    if (!this.isDraining) this.stopped = undefined;
  }

  /** Ends all generations with an error. */
  endAll(error: RocmForgeError): void {
    for (const generation of new Set(this.generations.values())) this.failGeneration(generation, error);
  }

  /** True if an executor reuses the KV memory of the previous one. What damaged weights have computed is not reused. */
  private keeps({ model: { kvMemory, arithmetic: numerics, restoredWeights } }: ExecutorSession): boolean {
    const isSame = kvMemory !== 0n && kvMemory === this.memory && numerics === this.numerics;
    const isKept = isSame && restoredWeights === 0;
    this.memory = kvMemory;
    return isKept;
  }

  /** Fails generations that have tokens, unless the next executor has the same numerics: they would not continue with the same bits. */
  private failIfNumericsChanged(numerics: string): void {
    const { numerics: before = numerics } = this;
    this.numerics = numerics;
    if (before === numerics || this.options.allowOtherArithmetic) return;
    const error = new RocmForgeError(
      'ARITHMETIC_CHANGED',
      'the executor that takes over has other numerics; send the request again',
    );
    for (const generation of new Set(this.generations.values())) {
      const { sequences, parameters, hasHiddenStates } = generation;
      const hasTokens = sequences.some(({ emitted }) => emitted.length > 0) || parameters.sampling.promptLogprobs > 0;
      if (hasTokens || hasHiddenStates) this.failGeneration(generation, error);
    }
  }

  /** The executor is lost with everything it held. Its sequences are computed again, once {@link handleLoss} has the reason. */
  onExecutorLost(): void {
    this.session = undefined;
    this.masking = undefined;
    const { busySince } = this;
    this.busySince = undefined;
    const { scheduler } = this;
    if (!scheduler) return;
    // A hang is detected seconds after the step that does not return.
    const lostAt = scheduler.stepsInFlight > 0 ? (busySince ?? this.submittedAt) : performance.now();
    this.counters.replayed += scheduler.runningCount;
    for (const [sequence, generation] of this.generations) {
      if (sequence.state === 'waiting') continue;
      this.interrupted.add([sequence]);
      this.guard(generation, () => generation.interrupted(lostAt));
    }
    this.unloaded.executorLost(scheduler, this.numerics as string);
    this.suspicions = scheduler.slicesInFlight.map(({ sequence, position, count }) => ({
      sequence,
      end: position + count,
    }));
    scheduler.suspend();
  }

  /**
   * Applies the reason of the loss: blames the sequences that were in flight, if it is evidence against them, and fails all
   * generations if the executor is unhealthy. All others continue on the next executor.
   *
   * @returns true if the executor is unhealthy: it faulted in a step that had only the control
   */
  handleLoss(loss: Loss): boolean {
    const suspicions = this.suspicions.filter(({ sequence }) => sequence.state !== 'ended');
    this.suspicions = [];
    if (!loss.isEvidence || !this.blame.faulted(suspicions)) return false;
    const message = `the executor faults whatever it is given; it is retried every ${PROBE_INTERVAL_MS / 1000} s`;
    const retry = { retry_delay_ms: String(PROBE_INTERVAL_MS) };
    this.fail(new RocmForgeError('EXECUTOR_UNAVAILABLE', message, retry));
    return true;
  }

  /**
   * Copies KV blocks and snapshots to the host's memory, in the next steps, for the next executor after the model is unloaded.
   *
   * @returns true if there is nothing left to copy; else `saved` follows, unless something is to be computed meanwhile
   */
  saveContents(): boolean {
    const { scheduler, session } = this;
    if (scheduler === undefined || session === undefined) return true;
    const isSaved = this.unloaded.save(scheduler, session.model);
    this.pump();
    return isSaved;
  }

  /** The model is to stay loaded, or to be loaded again. */
  cancelSaving(): void {
    if (this.scheduler) this.unloaded.cancel(this.scheduler);
  }

  /** True while KV blocks are copied before the model is unloaded. */
  get isSaving(): boolean {
    return this.scheduler !== undefined && this.unloaded.isSaving(this.scheduler);
  }

  /** Bytes of the host's memory with KV blocks and snapshots of an unloaded model. */
  get savedBytes(): number {
    return this.unloaded.bytes;
  }

  /** Memory that the next executor may find has been in the hands of one that faulted. */
  suspectMemory(): void {
    this.scheduler?.checksums.suspect();
  }

  /** No executor will start soon: fails all generations, and rejects new ones with the same error until one serves. */
  fail(error: RocmForgeError): void {
    if (!this.isDraining) this.stopped = error;
    for (const generation of new Set(this.generations.values())) this.failGeneration(generation, error);
  }

  /** The scheduler for an executor's limits. If they changed, a new scheduler takes over all sequences; their blocks are lost anyway. */
  private schedulerFor(limits: SchedulerOptions): Scheduler {
    const { scheduler: before } = this;
    if (before?.isFor(limits)) return before;
    const scheduler = new Scheduler(limits);
    scheduler.mayRun = (sequence) => this.blame.mayRun(sequence);
    this.scheduler = scheduler;
    if (before === undefined) return scheduler;
    this.log.warn({ limits }, 'the executor came back with other limits');
    Object.assign(scheduler.counters, before.counters);
    for (const sequence of before.takeOut()) {
      const { promptIds, maxTokens } = sequence.options;
      if (scheduler.canEverRun(promptIds.length + (limits.isEncoder ? 0 : maxTokens))) {
        scheduler.add(sequence);
        continue;
      }
      const generation = this.generations.get(sequence);
      const message = 'the executor came back with a KV cache that is too small for prompt and max_tokens together';
      if (generation) this.failGeneration(generation, new RocmForgeError('OUT_OF_MEMORY', message));
    }
    return scheduler;
  }

  private failGeneration(generation: Generation, error: RocmForgeError): void {
    for (const sequence of generation.sequences) this.drop(sequence);
    this.guard(generation, () => generation.fail(error));
  }

  /** An error while a result is passed to a request ends only that request. */
  private guard(generation: Generation, hand: () => void): void {
    try {
      hand();
    } catch (thrown) {
      const request = logFields(generation.context);
      this.log.error({ ...request, err: thrown }, 'a request failed while its tokens were handed out');
      for (const sequence of generation.sequences) this.drop(sequence);
      try {
        generation.fail(asRocmForgeError(thrown));
      } catch (again) {
        this.log.error({ ...request, err: again }, 'and its end could not be reported');
      }
    }
  }

  private quarantine(sequence: Sequence): void {
    const generation = this.generations.get(sequence);
    if (!generation) return;
    this.counters.quarantined += 1;
    this.log.error(logFields(generation.context), 'a request is quarantined');
    const message = 'the executor faulted each time this request ran, also alone, and not without it';
    this.failGeneration(generation, new RocmForgeError('REQUEST_QUARANTINED', message));
  }

  /** Fails a generation whose logits are not finite: further tokens would be meaningless. */
  private endNonFinite(generation: Generation): void {
    this.counters.nonFinite += 1;
    this.log.error(logFields(generation.context), 'logits are not finite');
    const message =
      'the model gives no finite logits for this request: a value overflows in it, or in its penalties and biases';
    this.failGeneration(generation, new RocmForgeError('NON_FINITE_LOGITS', message));
  }

  private drop(sequence: Sequence): void {
    const generation = this.generations.get(sequence);
    if (generation?.sequences.every((other) => other === sequence || !this.generations.has(other))) {
      this.paused.delete(generation);
    }
    this.generations.delete(sequence);
    this.interrupted.delete(sequence);
    sequence.options.constraint?.close();
    this.masking?.ended(sequence);
    this.queuedAt.delete(sequence);
    this.blame.ended(sequence);
    if (this.scheduler) this.scheduler.end(sequence);
    else this.early.remove(sequence);
  }

  /**
   * True if the next step is delayed until it can carry the masks that the step in flight waits for: each message interrupts the host
   * device, whose threads use all processors. The step in flight must be known to take longer than the delay.
   */
  private mayWait(completed: readonly PlannedSlice[], scheduler: Scheduler, deviceUs: number): boolean {
    const { oldestStep } = scheduler;
    if (deviceUs < LONG_STEP_US || oldestStep === undefined || !this.masking?.isAwaited) return false;
    return rowsOf(oldestStep.slices) >= rowsOf(completed);
  }

  private pump(): void {
    clearTimeout(this.waiting);
    this.waiting = undefined;
    const { session, scheduler, masking } = this;
    if (!session || !scheduler || !masking) return;
    if (this.interrupted.areResumed) this.listener.resumed();
    // While the request that causes faults is searched, only one step is in flight, so that a fault is that step's. Tokens that a
    // prediction block drafts after a step belong to the next one.
    const isAlone = () => this.blame.isSearching || scheduler.mayPredict;
    const mayFollow = () => scheduler.stepsInFlight < this.options.pipelineDepth && !isAlone();
    while (scheduler.stepsInFlight === 0 || mayFollow()) {
      const plan = scheduler.plan();
      if (plan === undefined) return;
      this.submittedAt = performance.now();
      session.submit(encodeStep(plan, session.epoch, masking.begin(plan), session.model));
      for (const { sequence } of plan.opens) this.reportPlaced(sequence);
    }
  }

  private reportPlaced(sequence: Sequence): void {
    this.generations.get(sequence)?.placed(sequence);
    const since = this.queuedAt.get(sequence);
    if (since === undefined) return;
    this.queuedAt.delete(sequence);
    this.listener.admitted(performance.now() - since);
  }

  /** @throws RocmForgeError `EXECUTOR_PROTOCOL` for what is not an answer to the oldest step */
  private result(response: ExecuteResponse): void {
    const { scheduler, session } = this;
    if (!scheduler || !session) return;
    const resultAt = performance.now();
    checkAnswer(scheduler.oldestStep, response, session.model);
    countSaturated(this.counters, response.saturatedActivations, this.log);
    const wasSaving = scheduler.saving.isUnderWay;
    const { slices, tokens } = this.complete(scheduler, response);
    if (slices.length > 0) this.listener.stepCompleted();
    for (const { sequence } of slices) {
      this.interrupted.delete(sequence);
      const guilty = this.blame.progressed(sequence);
      if (guilty !== undefined) this.quarantine(guilty);
      this.generations.get(sequence)?.progressed(sequence);
    }
    this.pushPrompts(slices, response);
    this.pushHidden(slices, response, session.model);
    for (const { sequence, index } of tokens) {
      const generation = this.generations.get(sequence);
      const output = response.outputs[index] as SlotOutput;
      // The control belongs to no generation: it has survived.
      if (generation === undefined) scheduler.end(sequence);
      else if (output.nonFinite) this.endNonFinite(generation);
      else {
        this.guard(generation, () => {
          if (generation.push(sequence, output)) this.drop(sequence);
          else sequence.options.constraint?.accept(output.tokenId);
        });
      }
    }
    if (this.options.checkEveryStep) scheduler.check();
    else if (scheduler.stepsInFlight === 0 && scheduler.runningCount === 0) this.checkIdle(scheduler);
    if (this.mayWait(slices, scheduler, response.deviceUs)) {
      this.waiting = setTimeout(() => this.pump(), MASKS_MS);
    } else this.pump();
    this.busySince = scheduler.stepsInFlight > 0 ? resultAt : undefined;
    if (this.freeSlots > 0 && this.sequences === scheduler.runningCount) this.listener.hasRoom();
    this.unloaded.stepReturned(scheduler, wasSaving);
  }

  /** Slots that sequences could have now; 0 where no executor serves. */
  get freeSlots(): number {
    return this.session === undefined ? 0 : (this.scheduler?.freeSlots ?? 0);
  }

  private complete(scheduler: Scheduler, response: ExecuteResponse): StepResult {
    const { outputs, deviceUs, predictUs, checksums, openChecksums, notCopied } = response;
    const isPredicted = scheduler.oldestStep?.slices.some(({ predictedTokens }) => predictedTokens !== undefined);
    const sampled = outputs.some(({ late }) => late) ? sampledSlices(scheduler.oldestStep) : [];
    this.masking?.completed(sampled.filter((_, i) => outputs[i]?.late).map(({ sequence }) => sequence));
    return scheduler.complete(
      outputs.map(({ late, tokenId }) => (late ? undefined : tokenId)),
      outputs.map(({ predictedIds }) => predictedIds),
      this.timesOf(deviceUs, isPredicted ? predictUs : undefined),
      checksums,
      !notCopied,
      openChecksums,
    );
  }

  /** Times of a step whose result came: since the one before, if it was under way by then, as that is what a step costs. */
  private timesOf(deviceUs: number, blockUs?: number): StepTimes {
    const now = performance.now();
    const sinceResult = this.busySince === undefined ? 0 : 1000 * (now - this.busySince);
    const since = this.busySince ?? this.submittedAt;
    this.busySince = undefined;
    const elapsedUs = 1000 * (now - since);
    if (blockUs === undefined) return { elapsedUs, stepUs: Math.max(deviceUs, sinceResult), rowsUs: deviceUs };
    const rowsUs = deviceUs - blockUs;
    const waitUs = Math.max(0, elapsedUs - deviceUs);
    return { elapsedUs, stepUs: rowsUs, rowsUs, block: { blockUs, waitUs } };
  }

  /** A sequence's next mask is known. */
  private maskReady(generation: Generation, sequence: Sequence): void {
    const mask = sequence.options.constraint?.mask;
    if (mask === undefined || !this.generations.has(sequence)) return;
    if (mask.onlyEnds && generation.cannotEnd(sequence)) {
      this.drop(sequence);
      this.guard(generation, () => generation.end(sequence, { reason: 'stop' }));
      this.pump();
      return;
    }
    if (this.masking?.ready(sequence, mask)) {
      if (this.waiting !== undefined && !this.masking.isAwaited) this.pump();
      return;
    }
    sequence.retryMissed();
    this.pump();
  }

  /** Log probabilities of prompts come before the first token, in as many steps as the prompt took. */
  private pushPrompts(slices: readonly PlannedSlice[], { promptOutputs }: ExecuteResponse): void {
    let next = 0;
    for (const slice of slices) {
      if (!slice.promptLogprobs) continue;
      const outputs = promptOutputs.slice(next, next + promptOutputsOf(slice));
      next += outputs.length;
      // A prompt of one token has none; the generation must still be notified.
      const generation = this.generations.get(slice.sequence);
      if (generation === undefined) continue;
      if (outputs.some(({ nonFinite }) => nonFinite)) this.endNonFinite(generation);
      else this.guard(generation, () => generation.pushPrompt(slice.position + 1, outputs));
    }
  }

  /** Hidden states of prompts that are not pooled come in as many steps as the prompt took. */
  private pushHidden(slices: readonly PlannedSlice[], { hiddenStates }: ExecuteResponse, model: LoadedModel): void {
    if (hiddenStates.length === 0) return;
    for (const [i, { sequence, position, count, pooling }] of returningSlices(slices, model).entries()) {
      const generation = this.generations.get(sequence);
      // The control belongs to no generation.
      if (generation === undefined && model.encoder) this.scheduler?.end(sequence);
      if (generation === undefined) continue;
      this.guard(generation, () => {
        const states = hiddenStates[i] as Uint8Array;
        const isOver =
          pooling === 'none'
            ? generation.pushHidden(sequence, position, count, states)
            : generation.pushPooled(sequence, states);
        if (isOver) this.drop(sequence);
      });
    }
  }

  /** Checks the block accounting while nothing runs, when that costs nothing. */
  private checkIdle(scheduler: Scheduler): void {
    try {
      scheduler.check();
    } catch (error) {
      this.log.error({ err: error }, 'KV block accounting is inconsistent');
    }
  }
}

/** Bytes that a step compares: some 0.1 s of a host, 10 ms of a GPU. */
const MOST_COMPARED = { host: 512 << 20, gpu: 2 ** 33 };

const rowsOf = (slices: readonly PlannedSlice[]): number => slices.reduce((sum, { count }) => sum + count, 0);
