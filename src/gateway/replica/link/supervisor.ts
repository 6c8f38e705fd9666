// One file because each event changes the same state: the process, its session, and the reason why the previous one was ended.
import { randomBytes } from 'node:crypto';
import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';
import { HUNG_EXECUTOR } from '../../../shared/fault-log.js';
import type { LoadModelRequest } from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../../../shared/log.js';
import { packageVersion } from '../../../shared/package.js';
import { encodeRehearsal } from '../../../shared/rehearsal.js';
import { StallTolerantClock } from '../../../shared/stall-tolerant-clock.js';
import { StepDeadline } from '../../../shared/step-deadline.js';
import { ExecutorProcess, type ExecutorProcessOptions, type Exit } from './executor-process.js';
import { ExecutorSession } from './executor-session.js';
import { faultOf, reportedError, reportFault } from './fault-reports.js';
import { KeptMemory } from './kept-memory.js';
import { judgeLoss, outOfMemoryKills } from './loss.js';
import { LOCAL_LINK, linkCredentials, type RemoteExecutor } from './remote-executor.js';
import type { SessionTerms } from './session-terms.js';
import { type Silence, watchSilence } from './silence.js';
import { type Spare, SpareExecutor } from './spare-executor.js';
import {
  BEGINNING,
  BUSY_RETRY_MS,
  canServe,
  decide,
  type Supervision,
  type SupervisorAction,
  type SupervisorEvent,
  type SupervisorState,
  UNLOADED,
} from './supervision.js';
import type { SupervisorListener } from './supervisor-listener.js';

export interface SupervisorOptions {
  /** Start executors, or use the one at an address. */
  readonly executor: { readonly spawn: ExecutorProcessOptions } | RemoteExecutor;
  readonly load: Omit<LoadModelRequest, 'epoch' | 'gateway' | 'version'>;
  /** Token ids that the gateway can turn into text. */
  readonly vocabularySize: number;
  /** Throws `MODEL_FILE_CHANGED` when the file is not the one any more that requests were read with. */
  readonly checkModelFile: () => void;
  /** Throws `MODEL_FILE_CHANGED` when an executor has loaded other content than the first one; with its `content_checksum`. */
  readonly confirmContent: (checksum: bigint) => void;
  /** The least time a step gets before the executor counts as hung, in milliseconds. */
  readonly stepTimeoutMs: number;
  /** Time that a load may take without progress. */
  readonly loadTimeoutMs: number;
  /** Deaths within a minute after which starting anew is given up for a while. Killed from outside, an executor has not died. */
  readonly maxRestarts: number;
  /** Time without a completed step after which requests are ended though executors are started; default 5 min. */
  readonly recoveryTimeoutMs?: number | undefined;
  /** Time after which an executor is tried again where starting anew was given up; default 30 s. */
  readonly probeIntervalMs?: number | undefined;
  /** True if streams may continue on an executor with other numerics; default false. */
  readonly allowOtherArithmetic?: boolean | undefined;
  /** Folder that keeps the last faults; absent: they are logged alone. */
  readonly stateFolder?: string | undefined;
  /** True if an executor that this gateway starts has a spare; default: where one GPU has room for it, see also below. */
  readonly hasSpare?: boolean | undefined;
  /** Time that an executor on the CPU serves before another stands by, where memory is left; absent: none does by default. */
  readonly spareOnHostMs?: number | undefined;
  /** True if KV blocks are to outlive an executor that this gateway started; default true. */
  readonly keepsMemory?: boolean | undefined;
  /** True if executors copy KV blocks to the host's memory before they are unloaded; default false. */
  readonly savesMemory?: boolean | undefined;
  /** True if there is no executor before one is asked for; default false. */
  readonly onDemand?: boolean | undefined;
}

const CONNECT_TIMEOUT_MS = 20_000;
export const RECOVERY_TIMEOUT_MS = 300_000;
/** Time that an executor serves before another is started to stand by. */
const SPARE_DELAY_MS = 250;
/** Free memory below which none stands by on the CPU by default, bytes: it takes some 70 MB beside the weights, which are the file's pages. */
const HOST_SPARE_MEMORY = 512 << 20;
const WATCH_INTERVAL_MS = 50;
/** Time that an executor may take to end by itself: a driver frees gigabytes before its process ends. */
const GRACE_MS = 2000;
/** And one that hangs, which most likely will not. */
const HUNG_GRACE_MS = 100;
/** Exit code of the command if it has reported why it does not work. */
const EXIT_TOLD = 1;

/**
 * Keeps one executor running: starts it, loads the model, watches that steps come back, and starts another when it dies
 * or hangs. A completed step is what counts as life, not an answered ping. What follows from what is decided in
 * `supervision.ts`.
 */
export class Supervisor {
  private supervision: Supervision;
  private session: ExecutorSession | undefined;
  private process: ExecutorProcess | undefined;
  /** Identity of this gateway at an executor that several may reach, and its first epoch. */
  private readonly identity = randomBytes(8).readBigUInt64LE();
  private readonly firstEpoch = randomBytes(6).readUIntLE(0, 6);
  private started = 0;
  /** Why the executor of this epoch is being given up. */
  private cause: RocmForgeError | undefined;
  private isHung = false;
  /** The executor itself said what the matter is, or what it said was the matter. */
  private isAnswer = false;
  /** The last {@link cause}, kept while the next executor is tried. */
  private lastProblem: RocmForgeError | undefined;
  /** No executor can be started, since the gateway's own model file holds other content. */
  private isFileChanged = false;
  /** A session has been lost, and why is not known yet. */
  private isUnjudged = false;
  /** The executor's end was asked for. */
  private isReplaced = false;
  private lostAt: number | undefined;
  private readonly deadline = new StepDeadline();
  private readonly clock = new StallTolerantClock(WATCH_INTERVAL_MS);
  /** Memory failures of this control group when the executor started. */
  private outOfMemoryKills = 0;
  private device: SessionTerms['device'];
  private numerics: string | undefined;
  private timer: NodeJS.Timeout | undefined;
  private readonly watch: NodeJS.Timeout;
  /** Promise of the first start, until it has served or failed. */
  private first: { resolve(): void; reject(error: RocmForgeError): void } | undefined;
  private ended: Promise<unknown> = Promise.resolve();
  /** Resolves when a spare and a prestarted process have ended that an unload has ended. */
  private othersEnded: Promise<unknown> = Promise.resolve();
  private readonly memory: KeptMemory;
  private readonly spare: SpareExecutor | undefined;
  private isSpareMissing = false;
  /** A process for the next executor, where there is no spare. */
  private next: ExecutorProcess | undefined;
  private nextTimer: NodeJS.Timeout | undefined;
  /** State of the address of a remote executor while none responds there. */
  private silence: Silence | undefined;

  constructor(
    private readonly options: SupervisorOptions,
    private readonly listener: SupervisorListener,
    private readonly log: Logger,
  ) {
    this.supervision = options.onDemand ? UNLOADED : BEGINNING;
    this.memory = new KeptMemory(log, () => this.memoryLost());
    if (options.hasSpare !== false && 'spawn' in options.executor) {
      this.spare = new SpareExecutor(() => this.startSpare(), log);
    }
    this.watch = setInterval(() => {
      this.clock.tick();
      // Messages that have arrived while this process was held up are read first.
      setImmediate(() => this.checkProgress());
    }, WATCH_INTERVAL_MS);
    this.watch.unref();
  }

  get state(): SupervisorState {
    return this.supervision.state;
  }

  /** Why no executor serves, once one could not; undefined while one serves. */
  get problem(): RocmForgeError | undefined {
    return this.lastProblem;
  }

  /** True if a request has reason to wait, see {@link canServe}. */
  get canServe(): boolean {
    return canServe(this.supervision);
  }

  /** True if only a restart of the gateway helps: it has read the model file before other content was written to it. */
  get needsRestart(): boolean {
    return this.isFileChanged;
  }

  /** Executors started so far. */
  get executorEpoch(): number {
    return this.started;
  }

  /** Milliseconds the step under way has taken; 0 when there is none. */
  get oldestStepAgeMs(): number {
    return this.session?.watch.ageMs ?? 0;
  }

  /** The running executor's process id, where this gateway started it. */
  get pid(): number | undefined {
    return this.process?.pid;
  }

  /** Address of the executor. */
  get address(): string | undefined {
    const { executor } = this.options;
    return 'spawn' in executor ? this.process?.address : executor.address;
  }

  /**
   * Starts the first executor. One that crashes is tried again as later ones are, and so is one elsewhere that could not serve.
   *
   * @throws RocmForgeError why it could not serve: at the start a wrong model file is the caller's to hear of
   */
  start(): Promise<void> {
    const started = new Promise<void>((resolve, reject) => {
      this.first = { resolve, reject };
    });
    this.perform({ do: 'spawn' });
    return started;
  }

  /** Steps come back: deaths before this do not count against the executor any more. */
  stepCompleted(): void {
    const { deaths, kills = 0, probing } = this.supervision;
    if (deaths.length > 0 || kills > 0 || probing) this.happen('step');
  }

  /** For the engine: an executor serves, and nothing that its predecessor ran waits for its next step. */
  resumed(): void {
    if (this.lostAt !== undefined) this.listener.recovered((performance.now() - this.lostAt) / 1000);
    this.lostAt = undefined;
  }

  /** For the engine: the session's stream broke. */
  sessionLost(epoch: bigint, error: RocmForgeError, isAnswer: boolean): void {
    if (epoch !== this.epoch) return;
    // The writer of the model file is not a request.
    this.isAnswer = isAnswer && error.reason !== 'MODEL_FILE_CHANGED';
    this.happen('broken', error);
  }

  /**
   * Ends the executor that serves and starts another, which may compute otherwise: what went on with this one's bits is
   * moved by whoever hears that it is lost. Where there is none the next is another anyway, and may compute otherwise, too.
   *
   * @returns false where none serves
   */
  replace(): boolean {
    // Everything that was under way has ended.
    if (this.state === 'unloaded' || this.state === 'failed') this.numerics = undefined;
    if (this.state !== 'serving') return false;
    this.isReplaced = true;
    // It was started before whatever is to be another now.
    void this.spare?.stop();
    void this.stopNext();
    this.numerics = undefined;
    this.happen('replace');
    return true;
  }

  /**
   * Ends the executor that serves, and with it all that it holds of its device, or stops trying to have one. None follows before
   * {@link load}.
   *
   * @returns false where none serves, or is tried again after a while
   */
  unload(): boolean {
    if (this.state !== 'serving' && this.state !== 'failed') return false;
    this.isReplaced = this.state === 'serving';
    this.othersEnded = Promise.all([this.spare?.stop(), this.stopNext()]);
    this.happen('unload');
    return true;
  }

  /** The copies that executors have made for the next one are not needed any more. */
  releaseSaved(): Promise<void> {
    return this.memory.releaseSaved();
  }

  /** Starts an executor, or has one follow that is ending, where there is none: after {@link unload}, or from the start. */
  load(): void {
    this.happen('load');
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    clearInterval(this.watch);
    clearTimeout(this.timer);
    this.silence?.end();
    this.happen('stop');
    await Promise.all([this.ended, this.spare?.stop(), this.stopNext()]);
    await this.memory.release();
    this.memory.closeSaved();
  }

  private happen(event: SupervisorEvent, cause?: RocmForgeError, isOutside = false): void {
    const { maxRestarts, probeIntervalMs, recoveryTimeoutMs = RECOVERY_TIMEOUT_MS } = this.options;
    const { state } = this.supervision;
    const times = { nowMs: performance.now(), random: Math.random(), recoveryTimeoutMs };
    const circumstances = { ...times, maxRestarts, probeIntervalMs, isOutside };
    const { after, actions } = decide(this.supervision, event, circumstances);
    this.supervision = after;
    // None follows before it is asked for: time without requests is no recovery.
    if (after.state === 'unloaded') this.lostAt = undefined;
    if (after.state === 'unloaded' || after.state === 'failed') void this.stopNext();
    // An unloaded model takes no memory, nor does one whose load was refused.
    const isRefused = after.state === 'failed' && after.demanded === true;
    if (after.state !== state && (after.state === 'unloaded' || isRefused)) void this.memory.release();
    if (after.state !== state) {
      this.log.info({ from: state, event }, `executor state: ${after.state}`);
      // The first cause is what counts: what comes after follows from it.
      if (cause !== undefined) {
        this.cause ??= cause;
        this.lastProblem = this.cause;
        // The caller receives the failure of a first start: one line is enough.
        this.log[this.first === undefined ? 'warn' : 'debug']({ reason: cause.reason }, cause.message);
      }
    }
    for (const action of actions) this.perform(action);
    if (after.state !== state) this.listener.state(after.state, this.cause);
    if (after.state === 'failed') this.startFailed(this.cause ?? unavailable('the executor ended repeatedly'));
  }

  /** The caller of {@link start} hears of it. An executor elsewhere is tried again, since others may serve meanwhile. */
  private startFailed(error: RocmForgeError): void {
    this.first?.reject(error);
    if (!('spawn' in this.options.executor)) this.first = undefined;
  }

  private perform(action: SupervisorAction): void {
    switch (action.do) {
      case 'spawn':
        this.started += 1;
        this.cause = undefined;
        this.isHung = false;
        this.isAnswer = false;
        this.isReplaced = false;
        void this.open(this.epoch);
        break;
      case 'serve':
        this.first?.resolve();
        this.first = undefined;
        this.lastProblem = undefined;
        this.isFileChanged = false;
        break;
      case 'lose':
        if (this.state !== 'unloading') this.lostAt ??= performance.now();
        this.isUnjudged = true;
        this.session?.close();
        this.session = undefined;
        this.beginNext();
        this.listener.lost(this.cause ?? unavailable('the executor ended'));
        break;
      case 'terminate':
        this.ended = this.terminate(this.process);
        break;
      case 'refuse':
        this.listener.unservable(retryable(this.cause ?? unavailable('the executor ended'), action.ms));
        break;
      case 'wait':
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.happen('due'), action.ms);
        break;
    }
  }

  /** Starts or finds an executor and loads the model. Never rejects: what goes wrong happens to the supervision. */
  private async open(epoch: bigint): Promise<void> {
    const { load, loadTimeoutMs, vocabularySize } = this.options;
    const abandoned = new AbortController();
    let process: ExecutorProcess | undefined;
    try {
      const { address, isReady } = this.startOrFind(abandoned);
      process = this.process;
      // Why it is not ready the load below tells.
      const client = await isReady?.catch(() => undefined);
      if (!this.isCurrent(epoch, process)) return;
      const { deadline, clock, device } = this;
      const { executor } = this.options;
      const link = 'spawn' in executor ? LOCAL_LINK : linkCredentials(executor);
      if (!('spawn' in executor)) {
        this.silence = watchSilence(executor, CONNECT_TIMEOUT_MS, this.log, (why) => {
          // In service certificates are replaced while streams wait; at the start the options are wrong.
          if (this.first !== undefined) abandoned.abort(why);
        });
      }
      const terms = {
        load: { ...load, epoch, gateway: this.identity, version: packageVersion },
        vocabularySize,
        deadline,
        clock,
        device,
        numerics: this.options.allowOtherArithmetic ? undefined : this.numerics,
      };
      const session = await ExecutorSession.open(address, link, terms, {
        connectTimeoutMs: CONNECT_TIMEOUT_MS,
        loadTimeoutMs,
        abandoned: abandoned.signal,
        client,
        whySilent: () => this.silence?.why,
        onAnswer: () => {
          this.silence?.end();
          if (this.isCurrent(epoch, process)) this.happen('answered');
        },
        onProgress: (done, total) => this.listener.progress(done, total),
      });
      if (!this.isCurrent(epoch, process) || this.state === 'stopped') {
        session.close();
        return;
      }
      try {
        this.options.confirmContent(session.model.contentChecksum);
      } catch (error) {
        session.close();
        throw error;
      }
      this.session = session;
      this.device ??= session.info;
      this.numerics = session.model.arithmetic;
      this.happen('ready');
      const spareDelayMs = this.spareDelayMs(session.info.platform);
      if (this.spare !== undefined && spareDelayMs !== undefined && session.model.hasRoomForSpare)
        this.spare.ensure(spareDelayMs);
      else this.prepareNext();
      this.noteSpare(session.model.hasRoomForSpare);
      this.log.info({ epoch: this.started, executorPid: this.pid, device: session.info.device }, 'executor serving');
      this.listener.serving(session);
    } catch (thrown) {
      this.silence?.end();
      if (!this.isCurrent(epoch, process)) return;
      const error = this.judgeFileError(asRocmForgeError(thrown));
      if (error.reason === 'EXECUTOR_BUSY') {
        // A rejected gateway has started nothing.
        this.started -= 1;
        if (this.supervision.busySince === undefined)
          this.log.warn({ reason: error.reason }, `${error.message}; it is tried every ${BUSY_RETRY_MS} ms`);
        this.happen('busy', error);
        return;
      }
      // A process that told why, one that could not be started, or one at an address that nobody started: at the first
      // start the caller hears of it.
      if (error.reason !== 'EXECUTOR_UNAVAILABLE' || process === undefined) {
        this.startFailed(error);
        this.happen('refused');
      }
      if (error.reason === 'MODEL_FILE_CHANGED') {
        this.isFileChanged = !this.isFileTheSame();
        this.startFailed(error);
        this.listener.unservable(error);
      }
      this.happen('spawn' in this.options.executor && process === undefined ? 'gone' : 'broken', error);
    }
  }

  /**
   * @param abandoned aborted when the process has ended
   * @returns where the executor listens, or soon will; of a spare also when it has loaded the model
   * @throws RocmForgeError `EXECUTOR_UNAVAILABLE` when no process can be started now; `MODEL_FILE_CHANGED`
   */
  private startOrFind(abandoned: AbortController): { readonly address: string; readonly isReady?: Spare['isReady'] } {
    const { executor, checkModelFile } = this.options;
    checkModelFile();
    if (!('spawn' in executor)) return { address: executor.address };
    this.outOfMemoryKills = outOfMemoryKills();
    const spare = this.spare?.take();
    const child = spare?.process ?? this.takeNext() ?? this.startProcess(executor.spawn);
    this.process = child;
    void child.exited.then((exit) => {
      this.processEnded(child, exit);
      abandoned.abort('it has ended');
    });
    return { address: child.address, ...(spare && { isReady: spare.isReady }) };
  }

  private startProcess(spawn: ExecutorProcessOptions): ExecutorProcess {
    // The first choice of `auto` is what streams under way were computed with.
    const device = (this.device?.platform as typeof spawn.device | undefined) ?? spawn.device;
    const { keepsMemory = true, hasSpare, stepTimeoutMs } = this.options;
    const kept = keepsMemory ? this.memory.optionsFor({ ...spawn, device }) : {};
    const savedMemory = this.options.savesMemory ? this.memory.saved() : undefined;
    const options = {
      ...spawn,
      device,
      ...kept,
      savedMemory,
      hasSpare: (hasSpare ?? !this.isSplit) && this.memory.isOfGpu,
    };
    return new ExecutorProcess(options, stepTimeoutMs, this.log);
  }

  private takeNext(): ExecutorProcess | undefined {
    clearTimeout(this.nextTimer);
    const { next } = this;
    this.next = undefined;
    next?.begin();
    return next;
  }

  /** Starts a process for the next executor in a while, which takes nothing of the device: most of its start is over when it is needed. */
  private prepareNext(): void {
    clearTimeout(this.nextTimer);
    const { executor } = this.options;
    if (!('spawn' in executor) || !this.memory.isOfGpu || this.next !== undefined) return;
    const { spawn } = executor;
    this.nextTimer = setTimeout(() => {
      try {
        const rehearsal = this.device && encodeRehearsal(this.device.target, this.options.load);
        const next = this.startProcess({ ...spawn, prestarted: true, rehearsal });
        this.next = next;
        void next.exited.then(() => {
          if (this.next === next) this.next = undefined;
        });
      } catch {
        // The start of the next executor tells.
      }
    }, SPARE_DELAY_MS);
    this.nextTimer.unref();
  }

  /**
   * Lets the next executor open its device while the last one ends, for which NVIDIA's driver takes some 80 ms; it loads nothing before.
   * Not on AMD GPUs, which may be reset after a fault.
   */
  private beginNext(): void {
    if (this.state === 'suspect' && !this.isReplaced && this.device?.platform === 'cuda') this.next?.begin();
  }

  private async stopNext(): Promise<void> {
    clearTimeout(this.nextTimer);
    const { next } = this;
    this.next = undefined;
    await next?.end(GRACE_MS);
  }

  /** The memory that the executor computes with is going away: another begins with memory of its own. */
  private memoryLost(): void {
    void this.spare?.stop();
    void this.stopNext();
    this.happen('broken', unavailable('the keeper of device memory has ended'));
  }

  /** The load of a spare is the same as the one that serves; its epoch is never used. */
  private startSpare(): Spare {
    const { executor, load, vocabularySize, loadTimeoutMs } = this.options;
    const { spawn } = executor as { readonly spawn: ExecutorProcessOptions };
    const process = this.startProcess({ ...spawn, forwardsError: true });
    const { deadline, clock, device, numerics } = this;
    const epoch = randomBytes(6).readUIntLE(0, 6);
    const request = { ...load, epoch: BigInt(epoch), gateway: this.identity, version: packageVersion };
    const abandoned = new AbortController();
    void process.exited.then((exit) => {
      abandoned.abort('it has ended');
      // It has the memory of the one that serves.
      if (judgeLoss({ exit, isHung: false, isAnswer: false, outOfMemoryKills: 0 }).isFault) this.listener.faulted();
    });
    const opened = ExecutorSession.open(
      process.address,
      LOCAL_LINK,
      { load: request, vocabularySize, deadline, clock, device, numerics },
      {
        ...{ connectTimeoutMs: CONNECT_TIMEOUT_MS, loadTimeoutMs, abandoned: abandoned.signal },
        ...{ whySilent: () => undefined, onAnswer: () => undefined, onProgress: () => undefined },
      },
    );
    const isReady = opened.then((session) => {
      const client = session.takeClient();
      void process.exited.then(() => client.close());
      return client;
    });
    return { process, isReady };
  }

  /** Time until an executor is to stand by, ms; undefined: none is wanted. */
  private spareDelayMs(platform: string): number | undefined {
    const { hasSpare, spareOnHostMs } = this.options;
    if (hasSpare !== undefined) return hasSpare ? SPARE_DELAY_MS : undefined;
    if (platform !== 'host') return this.isSplit ? undefined : SPARE_DELAY_MS;
    return process.availableMemory() < HOST_SPARE_MEMORY ? undefined : spareOnHostMs;
  }

  /** Resolves when nothing of an unloaded model is left on the device. */
  private async allFreed(): Promise<void> {
    await this.othersEnded;
    await this.memory.release();
  }

  private get isSplit(): boolean {
    const { executor } = this.options;
    return 'spawn' in executor && (executor.spawn.gpus?.length ?? 1) > 1;
  }

  /** True if there is a spare executor. */
  get hasSpare(): boolean {
    return this.spare?.isReady ?? false;
  }

  /** True if `--spare` was given, and there is none for a reason that time does not change. */
  get lacksSpare(): boolean {
    return this.isSpareMissing;
  }

  /** Logs once that there is no spare, and again if one was possible in between. */
  private noteSpare(hasRoom: boolean): void {
    const { hasSpare, executor, keepsMemory = true } = this.options;
    const before = this.isSpareMissing;
    this.isSpareMissing = hasSpare === true && (this.spare === undefined || !hasRoom);
    if (!this.isSpareMissing || before) return;
    const why = !('spawn' in executor)
      ? 'the executor at an address is not started by this gateway'
      : keepsMemory
        ? 'it would take a quarter of the memory for KV blocks or more; a lower --max-step-tokens or more device memory helps'
        : 'on a GPU it requires the keeper, which --no-keeper turns off';
    this.log.warn(`--spare has no effect, there is no spare executor: ${why}`);
  }

  /**
   * An executor of this gateway has its file: a change of the file without one of its content only repeats the load. An executor
   * elsewhere reads a file of its own.
   */
  private judgeFileError(error: RocmForgeError): RocmForgeError {
    const { executor } = this.options;
    if ('spawn' in executor) {
      const isTouched = error.reason === 'MODEL_FILE_CHANGED' && this.isFileTheSame();
      return isTouched ? unavailable(`the model is loaded again: ${error.message}`) : error;
    }
    if (error.reason !== 'MODEL_FILE_UNREADABLE') return error;
    const message = `${error.message} on the host of the executor at ${executor.address}; the model file must be at the same path there`;
    return new RocmForgeError(error.reason, message, error.metadata, { cause: error });
  }

  private isFileTheSame(): boolean {
    try {
      this.options.checkModelFile();
      return true;
    } catch {
      return false;
    }
  }

  private get epoch(): bigint {
    return (BigInt(this.firstEpoch) << 16n) + BigInt(this.started);
  }

  private isCurrent(epoch: bigint, process: ExecutorProcess | undefined): boolean {
    return epoch === this.epoch && process === this.process;
  }

  private processEnded(child: ExecutorProcess, exit: Exit): void {
    const current = this.process === child;
    if (current) this.process = undefined;
    const { code } = exit;
    if (this.state === 'stopped' && this.cause === undefined) return;
    if (this.isReplaced && current) {
      this.session?.close();
      if (this.state === 'unloading') void this.allFreed().then(() => this.state === 'unloading' && this.gone(exit));
      else this.gone(exit);
      return;
    }
    const wasTold = code === EXIT_TOLD || (this.cause !== undefined && this.cause.reason !== 'EXECUTOR_UNAVAILABLE');
    const ending = unavailable(this.describeEnd(exit));
    const cause = this.isHung && current ? ending : this.cause;
    const fault = faultOf({ pid: child.pid, executorEpoch: this.executorEpoch, cause, exit });
    // A first start that cannot work is the caller's mistake, of which it hears, and so do those who asked for a load.
    const isAsked = this.first !== undefined || this.supervision.demanded === true;
    if (!isAsked || !wasTold) {
      reportFault(fault, this.options.stateFolder, this.log);
      this.listener.fault(fault);
    }
    if (!current) return;
    this.session?.close();
    if (code !== EXIT_TOLD) {
      this.gone(exit, ending);
      return;
    }
    const told = unavailable(`${ending.message}: ${fault.lastLine}`);
    // The operator needs the executor's own reason; clients decide by the other one whether to retry.
    this.first?.reject(reportedError(fault.lastLine) ?? told);
    this.happen('refused');
    this.gone(exit, told);
  }

  /** The end of a process: of one that hung its signal says only that the gateway killed it. */
  private describeEnd({ code, signal, isKilled }: Exit): string {
    const how = signal === null ? `ended with exit code ${code}` : `ended by ${signal}`;
    if (!this.isHung || this.cause === undefined) return `the executor ${how}`;
    return `${this.cause.message}; ${isKilled ? 'killed by the gateway' : how}`;
  }

  /** The executor has ended, or has been given up: what that says of the steps it was at is told before the next begins. */
  private gone(exit: Exit | undefined, ending?: RocmForgeError): void {
    const { isHung, isAnswer } = this;
    const kills = outOfMemoryKills() - this.outOfMemoryKills;
    const loss = judgeLoss({ exit, isHung, isAnswer, isReplaced: this.isReplaced, outOfMemoryKills: kills });
    if (this.state !== 'unloading') this.listener.restarts(loss.reason);
    if (loss.isFault) this.listener.faulted();
    this.happen('gone', ending, loss.isOutside);
    if (!this.isUnjudged) return;
    this.isUnjudged = false;
    if (this.listener.judged(loss)) this.happen('unhealthy', unavailable('the executor faults whatever it is given'));
  }

  /** Ends the process, or gives it up. Its end makes `gone` happen. */
  private async terminate(child: ExecutorProcess | undefined): Promise<void> {
    const { session } = this;
    this.session = undefined;
    // Only the connection to an executor at an address was ours.
    if (child === undefined && this.state === 'stopped') {
      await session?.handOver();
      return;
    }
    session?.close();
    if (child === undefined) {
      queueMicrotask(() => this.gone(undefined));
      return;
    }
    const exit = await child.end(this.isHung ? HUNG_GRACE_MS : GRACE_MS);
    if (exit !== undefined || this.process !== child) return;
    this.log.error({ executorPid: child.pid }, 'the executor cannot be killed; it is left behind');
    this.process = undefined;
    // It may go on writing to the memory that others would share with it.
    await Promise.all([this.spare?.stop(), this.stopNext(), this.memory.release()]);
    this.gone(undefined);
  }

  private checkProgress(): void {
    const overdue = this.session?.watch.overdueMs(this.options.stepTimeoutMs);
    if (overdue === undefined) return;
    this.isHung = true;
    this.happen('overdue', unavailable(`${HUNG_EXECUTOR}: no step for ${Math.round(overdue)} ms`));
  }
}

const unavailable = (message: string) => new RocmForgeError('EXECUTOR_UNAVAILABLE', message);

/** The error with when to ask again, where asking again may help. */
function retryable({ reason, message, metadata, retryable: isRetryable }: RocmForgeError, ms: number): RocmForgeError {
  return new RocmForgeError(reason, message, isRetryable ? { ...metadata, retry_delay_ms: String(ms) } : metadata);
}
