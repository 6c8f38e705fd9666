import type { RocmForgeError } from '../../shared/errors.js';
import type { Fault } from '../../shared/fault-log.js';
import type { GetDeviceStatsResponse } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../../shared/log.js';
import type { Generation } from '../request/generation.js';
import type { Backend, PausedBy } from '../request/runner.js';
import { clientError, withoutExecutor } from './client-error.js';
import { Engine, type Migration } from './engine.js';
import type { EngineOptions } from './engine-options.js';
import type { ExecutorSession } from './link/executor-session.js';
import type { SupervisorState } from './link/supervision.js';
import { Supervisor, type SupervisorOptions } from './link/supervisor.js';
import { newSchedulerCounters, type ReplicaCounts } from './replica-counts.js';
import type { Scheduler } from './scheduler/scheduler.js';

export interface ReplicaOptions extends EngineOptions {
  readonly supervisor: SupervisorOptions;
}

/** Listener of a replica. */
export interface ReplicaListener {
  /** Its supervisor is in another state. */
  state(state: SupervisorState): void;
  progress(doneBytes: number, totalBytes: number): void;
  /** A sequence was given its first slot, this long after it came. */
  admitted(waitedMs: number): void;
  /** An executor process ended without being asked to. */
  fault(fault: Fault): void;
  /** Another executor follows: why, in a word. */
  restarts(reason: string): void;
  /** Another executor serves, and all that the lost one ran has made a step, this long after the loss. */
  recovered(seconds: number): void;
  /** Its executor is gone, and why is known: others may go on with what it had. */
  executorLost(): void;
  /** It has slots that nobody here waits for. */
  hasRoom(): void;
}

/**
 * One executor and all that its death resets: its supervisor, and the engine whose limits are those of the executor that
 * serves. Several live in one process without knowing of one another.
 */
export class Replica implements Backend {
  private readonly engine: Engine;
  private readonly supervisor: Supervisor;
  /** The device of the executor that serves or served last. */
  private deviceName = '';
  /** With the executor that serves. */
  private session: ExecutorSession | undefined;
  private numericsFingerprint: string | undefined;
  private slots = 0;
  private sizes = { tensor: 1, pipeline: 1 };
  private stepTokens = 0;
  /** Why no executor can go on with this model file; absent while one can. */
  private unservable: RocmForgeError | undefined;

  constructor(options: ReplicaOptions, listener: ReplicaListener, log: Logger) {
    this.engine = new Engine(
      options,
      {
        stepCompleted: () => this.supervisor.stepCompleted(),
        resumed: () => this.supervisor.resumed(),
        sessionLost: (...loss) => this.supervisor.sessionLost(...loss),
        admitted: (waitedMs) => listener.admitted(waitedMs),
        hasRoom: () => listener.hasRoom(),
        saved: () => void this.unloadModel(),
        savedReleased: () => this.supervisor.releaseSaved(),
      },
      log,
    );
    this.supervisor = new Supervisor(
      options.supervisor,
      {
        state: (state, cause) => {
          listener.state(state);
          if (state === 'unloaded') {
            this.unservable = undefined;
            this.engine.clearFailure();
          }
          if (state === 'failed') this.engine.fail(this.unservable ?? withoutExecutor(cause));
        },
        progress: (done, total) => listener.progress(done, total),
        serving: (session) => {
          this.deviceName = session.info.device;
          this.session = session;
          this.slots = session.model.maxSequences;
          this.sizes = { tensor: session.model.tensorShards || 1, pipeline: session.model.pipelineStages || 1 };
          this.stepTokens = session.model.maxStepTokens;
          this.unservable = undefined;
          this.numericsFingerprint = session.model.arithmetic;
          if (options.supervisor.load.predicts && !session.model.predicts) {
            log.warn(
              'the executor splits the model and has no multi-token-prediction block: tokens are drafted by prompt lookup',
            );
          }
          this.engine.serve(session);
          listener.hasRoom();
        },
        unservable: (cause) => {
          const error = clientError(cause, options.supervisor.load.path);
          this.unservable = error;
          // A load that was asked for is refused here, and may not be elsewhere.
          if (this.supervisor.state === 'failed') listener.executorLost();
          this.engine.fail(error);
        },
        lost: () => {
          this.session = undefined;
          this.engine.onExecutorLost();
        },
        faulted: () => this.engine.suspectMemory(),
        judged: (loss) => {
          const isUnhealthy = this.engine.handleLoss(loss);
          listener.executorLost();
          return isUnhealthy;
        },
        fault: (fault) => listener.fault(fault),
        restarts: (reason) => listener.restarts(reason),
        recovered: (seconds) => listener.recovered(seconds),
      },
      log,
    );
  }

  /**
   * Starts the first executor.
   *
   * @throws RocmForgeError why it could not serve
   */
  start(): Promise<void> {
    return this.supervisor.start();
  }

  /** Ends everything. */
  stop(): Promise<void> {
    return this.supervisor.stop();
  }

  /** Takes no more generations; those under way go on. */
  stopAdmission(): void {
    this.engine.stopAdmission();
  }

  /** Ends all generations with an error. */
  endAll(error: RocmForgeError): void {
    this.engine.endAll(error);
  }

  submit(generation: Generation): void {
    this.engine.submit(generation);
  }

  hasRoomForMore(principal: string, n: number): boolean {
    return this.engine.hasRoomForMore(principal, n);
  }

  cancel(generation: Generation): void {
    this.engine.cancel(generation);
  }

  pause(generation: Generation, by: PausedBy | undefined): void {
    this.engine.pause(generation, by);
  }

  expire(generation: Generation): void {
    this.engine.expire(generation);
  }

  /**
   * Gives the executor up and starts another; what was under way goes on with others, or with that one.
   *
   * @returns false where none serves
   */
  replace(): boolean {
    return this.supervisor.replace();
  }

  /**
   * Ends the executor, so that its device has all memory back, until {@link loadModel}. What is known of the model stays.
   *
   * @returns false where none serves, or something is under way; also while what it has computed is copied to the host's memory, after
   *          which it ends by itself
   */
  unloadModel(): boolean {
    if (this.engine.sequences > 0) return false;
    if (this.supervisor.state === 'serving' && !this.engine.saveContents()) return false;
    return this.supervisor.unload();
  }

  /** True while KV blocks are copied before the model is unloaded. */
  get isSaving(): boolean {
    return this.engine.isSaving;
  }

  /** Starts an executor where there is none, for generations that come with it or right after. */
  loadModel(): void {
    this.engine.cancelSaving();
    // Generations that came before admission ended may have waited for its turn to be loaded.
    if (!this.engine.isClosed || this.engine.sequences > 0) this.supervisor.load();
  }

  /** Devices that share each layer, and stages of layers, of the executor that serves or served last; 1 and 1 before. */
  get parallelism(): { readonly tensor: number; readonly pipeline: number } {
    return this.sizes;
  }

  /** See `Engine`, of what moves from one replica to another. */
  get movable(): readonly Generation[] {
    return this.engine.movable;
  }

  release(generation: Generation): Migration {
    return this.engine.release(generation);
  }

  takeOver(migrations: readonly Migration[]): void {
    this.engine.takeOver(migrations);
  }

  canRun(generation: Generation): boolean {
    return this.engine.canRun(generation);
  }

  findable(generation: Generation): number {
    return this.engine.findable(generation);
  }

  /** Slots that sequences could have now; 0 where no executor serves. */
  get freeSlots(): number {
    return this.engine.freeSlots;
  }

  /** Tokens of the sequences that wait for a slot. */
  get waitingTokens(): number {
    return this.engine.schedulerState?.waitingTokens ?? 0;
  }

  /** Numerics fingerprint of this replica; undefined before an executor has reported it. */
  get numerics(): string | undefined {
    return this.numericsFingerprint;
  }

  /** Generations under way. */
  get active(): number {
    return this.engine.active;
  }

  /** Sequences under way: what it has to do. */
  get load(): number {
    return this.engine.sequences;
  }

  get state(): SupervisorState {
    return this.supervisor.state;
  }

  /** Why no executor serves, once one could not; undefined while one serves. */
  get problem(): RocmForgeError | undefined {
    return this.supervisor.problem;
  }

  /** See {@link Engine.refusal}. */
  get refusal(): RocmForgeError | undefined {
    return this.engine.refusal;
  }

  /** True if only a restart of the gateway helps; see {@link Supervisor.needsRestart}. */
  get needsRestart(): boolean {
    return this.supervisor.needsRestart;
  }

  /** True if a request has reason to wait here: an executor serves, or one is started for it. */
  get canServe(): boolean {
    return this.supervisor.canServe;
  }

  get device(): string {
    return this.deviceName;
  }

  /** Device statistics of the serving executor; undefined while none serves, or if it does not report in time. */
  async deviceStats(timeoutMs: number): Promise<GetDeviceStatsResponse | undefined> {
    return this.session?.deviceStats(timeoutMs);
  }

  /** The most sequences that run at once on the executor that serves or served last. */
  get sequences(): number {
    return this.slots;
  }

  /** The executor's process id, where this gateway started it. */
  get pid(): number | undefined {
    return this.supervisor.pid;
  }

  /** Address of the executor. */
  get address(): string | undefined {
    return this.supervisor.address;
  }

  /** For tests. */
  get scheduler(): Scheduler | undefined {
    return this.engine.schedulerState;
  }

  get counts(): ReplicaCounts {
    const { engine, supervisor } = this;
    const scheduler = engine.schedulerState;
    return {
      running: scheduler?.runningCount ?? 0,
      waiting: scheduler?.waitingCount ?? 0,
      kvBlocks: scheduler?.blocks.capacity ?? 0,
      freeKvBlocks: scheduler?.blocks.freeCount ?? 0,
      windowKvBlocks: scheduler?.windows.capacity ?? 0,
      freeWindowKvBlocks: scheduler?.windows.freeCount ?? 0,
      stateSnapshots: scheduler?.snapshots.count ?? 0,
      keptStateSnapshots: scheduler?.snapshots.keptCount ?? 0,
      ...(scheduler?.counters ?? newSchedulerCounters()),
      ...engine.counters,
      savedBytes: engine.savedBytes,
      serving: Number(supervisor.state === 'serving'),
      spares: Number(supervisor.hasSpare),
      missingSpares: Number(supervisor.lacksSpare),
      slots: this.slots,
      stepTokens: this.stepTokens,
      executors: supervisor.executorEpoch,
      stepAgeMs: supervisor.oldestStepAgeMs,
    };
  }
}
