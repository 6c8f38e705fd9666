import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import { describeFault, type Fault, keepFault } from '../../shared/fault-log.js';
import type { LoadModelRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../../shared/log.js';
import { Pace } from '../../shared/pace.js';
import { ExecutorProcess, type ExecutorProcessOptions, type Exit } from './executor-process.js';
import { ExecutorSession } from './executor-session.js';
import { BEGINNING, decide, type SupervisorAction, type SupervisorEvent, type SupervisorState } from './supervision.js';

export interface SupervisorOptions {
  /** Start executors, or use the one at an address. */
  readonly executor: { readonly spawn: ExecutorProcessOptions } | { readonly address: string };
  readonly load: Omit<LoadModelRequest, 'generation'>;
  /** Throws `MODEL_FILE_CHANGED` when the file is not the one any more that requests were read with. */
  readonly checkModelFile: () => void;
  /** The least time a step gets before the executor counts as hung, in milliseconds. */
  readonly stepTimeoutMs: number;
  /** How long a load may go without progress. */
  readonly loadTimeoutMs: number;
  /** Deaths within a minute after which starting anew is given up for a while. */
  readonly maxRestarts: number;
  /** Folder that keeps the last faults; absent: they are logged alone. */
  readonly stateFolder?: string | undefined;
}

/** Who hears of executors that come and go. */
export interface SupervisorListener {
  state(state: SupervisorState): void;
  progress(doneBytes: number, totalBytes: number): void;
  /** A new generation serves. The listener starts the session's stream. */
  serving(session: ExecutorSession): void;
  /** The session is gone, and with it all the executor held. Another follows unless the state is `failed`. */
  lost(error: RocmForgeError): void;
  /** An executor process ended without being asked to, in whatever state. */
  fault(fault: Fault): void;
  /** Another executor follows: why, in a word such as `hung`, `SIGKILL`, `exit_86` or `connection`. */
  restarts(reason: string): void;
  /** No executor can go on with what is under way: it ends with this, and so does what comes until one serves. */
  unservable(error: RocmForgeError): void;
  /** The first step of a new executor came back, this long after the old one was lost. */
  recovered(seconds: number): void;
}

const CONNECT_TIMEOUT_MS = 20_000;
const WATCH_INTERVAL_MS = 50;
/** How long an executor may take to end by itself: a driver gives gigabytes back before its process's end. */
const GRACE_MS = 2000;
/** And one that hangs, which most likely will not. */
const HUNG_GRACE_MS = 100;
/** What the command exits with when it could tell why it does not work. */
const EXIT_TOLD = 1;

/**
 * Keeps one executor running: starts it, loads the model, watches that steps come back, and starts another when it dies
 * or hangs. A completed step is what counts as life, not an answered ping. What follows from what is decided in
 * `supervision.ts`.
 */
export class Supervisor {
  private supervision = BEGINNING;
  private session: ExecutorSession | undefined;
  private process: ExecutorProcess | undefined;
  private generation = 0n;
  /** Why the executor of this generation is being given up. */
  private cause: RocmForgeError | undefined;
  private isHung = false;
  private lostAt: number | undefined;
  private readonly pace = new Pace();
  private timer: NodeJS.Timeout | undefined;
  private readonly watch: NodeJS.Timeout;
  /** Of the first start, until it has served or failed. */
  private first: { resolve(): void; reject(error: RocmForgeError): void } | undefined;
  private ended: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly options: SupervisorOptions,
    private readonly listener: SupervisorListener,
    private readonly log: Logger,
  ) {
    this.watch = setInterval(() => this.checkProgress(), WATCH_INTERVAL_MS);
    this.watch.unref();
  }

  get state(): SupervisorState {
    return this.supervision.state;
  }

  /** Executors started so far. */
  get generations(): number {
    return Number(this.generation);
  }

  /** Milliseconds the step under way has taken; 0 when there is none. */
  get oldestStepAgeMs(): number {
    return this.session?.watch.ageMs ?? 0;
  }

  /** The running executor's process id, where this gateway started it. */
  get pid(): number | undefined {
    return this.process?.pid;
  }

  /** Where the executor listens. */
  get address(): string | undefined {
    const { executor } = this.options;
    return 'spawn' in executor ? this.process?.address : executor.address;
  }

  /**
   * Starts the first executor. One that crashes is tried again as later ones are.
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
    if (this.lostAt !== undefined) this.listener.recovered((performance.now() - this.lostAt) / 1000);
    this.lostAt = undefined;
    if (this.supervision.deaths.length > 0 || this.supervision.probing) this.happen('step');
  }

  /** For the engine: the session's stream broke. */
  sessionLost(generation: bigint, error: RocmForgeError): void {
    if (generation === this.generation) this.happen('broken', error);
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    clearInterval(this.watch);
    clearTimeout(this.timer);
    this.happen('stop');
    await this.ended;
  }

  private happen(event: SupervisorEvent, cause?: RocmForgeError): void {
    const { maxRestarts } = this.options;
    const { state } = this.supervision;
    const circumstances = { nowMs: performance.now(), random: Math.random(), maxRestarts };
    const { after, actions } = decide(this.supervision, event, circumstances);
    this.supervision = after;
    if (after.state !== state) {
      this.log.info({ from: state, event }, `supervisor ${after.state}`);
      // The first cause is what counts: what comes after follows from it.
      if (cause !== undefined) {
        this.cause ??= cause;
        // Of a first start that fails the caller hears: one line is enough.
        this.log[this.first === undefined ? 'warn' : 'info']({ reason: cause.reason }, cause.message);
      }
    }
    for (const action of actions) this.perform(action);
    if (after.state !== state) this.listener.state(after.state);
    if (after.state === 'failed') this.first?.reject(this.cause ?? unavailable('the executor ends again and again'));
  }

  private perform(action: SupervisorAction): void {
    switch (action.do) {
      case 'spawn':
        this.generation += 1n;
        this.cause = undefined;
        this.isHung = false;
        void this.open(this.generation);
        break;
      case 'serve':
        this.first?.resolve();
        this.first = undefined;
        break;
      case 'lose':
        this.lostAt ??= performance.now();
        this.session?.close();
        this.session = undefined;
        this.listener.lost(this.cause ?? unavailable('the executor ended'));
        break;
      case 'terminate':
        this.ended = this.terminate(this.process);
        break;
      case 'wait':
        this.timer = setTimeout(() => this.happen('due'), action.ms);
        break;
    }
  }

  /** Starts or finds an executor and loads the model. */
  private async open(generation: bigint): Promise<void> {
    const { executor, load, loadTimeoutMs, stepTimeoutMs } = this.options;
    const abandoned = new AbortController();
    try {
      this.options.checkModelFile();
    } catch (thrown) {
      this.refuse(asRocmForgeError(thrown));
      return;
    }
    let address: string;
    if ('spawn' in executor) {
      const child = new ExecutorProcess(executor.spawn, stepTimeoutMs, this.log);
      this.process = child;
      address = child.address;
      void child.exited.then((exit) => {
        this.processEnded(child, exit);
        abandoned.abort();
      });
    } else {
      address = executor.address;
    }
    const process = this.process;
    try {
      const session = await ExecutorSession.open(address, { ...load, generation }, this.pace, {
        connectTimeoutMs: CONNECT_TIMEOUT_MS,
        loadTimeoutMs,
        abandoned: abandoned.signal,
        onAnswer: () => this.isCurrent(generation, process) && this.happen('answered'),
        onProgress: (done, total) => this.listener.progress(done, total),
      });
      if (!this.isCurrent(generation, process) || this.state === 'stopped') {
        session.close();
        return;
      }
      this.session = session;
      this.happen('ready');
      const { device } = session.info;
      this.log.info({ generation: generation.toString(), pid: this.pid, device }, 'executor serving');
      this.listener.serving(session);
    } catch (thrown) {
      if (!this.isCurrent(generation, process)) return;
      const error = asRocmForgeError(thrown);
      // A process that told why, or one at an address that nobody started: at the first start the caller hears of it.
      if (error.reason !== 'EXECUTOR_UNAVAILABLE' || process === undefined) this.first?.reject(error);
      this.refuse(error);
    }
  }

  /** An executor cannot be had. One for another file than that of the requests must not be. */
  private refuse(error: RocmForgeError): void {
    if (error.reason === 'MODEL_FILE_CHANGED') {
      this.first?.reject(error);
      this.listener.unservable(error);
    }
    this.happen('broken', error);
  }

  private isCurrent(generation: bigint, process: ExecutorProcess | undefined): boolean {
    return generation === this.generation && process === this.process;
  }

  private processEnded(child: ExecutorProcess, exit: Exit): void {
    const current = this.process === child;
    if (current) this.process = undefined;
    const { code, signal, stderrTail, record } = exit;
    if (this.state === 'stopped' && this.cause === undefined) return;
    const wasTold = code === EXIT_TOLD || (this.cause !== undefined && this.cause.reason !== 'EXECUTOR_UNAVAILABLE');
    const ending = unavailable(`the executor ended ${signal === null ? `with exit code ${code}` : `by ${signal}`}`);
    const fault: Fault = {
      at: new Date().toISOString(),
      pid: child.pid,
      generation: this.generations,
      cause: this.cause?.message ?? '',
      exitCode: code,
      signal,
      record,
      lastLine: stderrTail.at(-1) ?? '',
    };
    // A first start that cannot work is the caller's mistake, of which it hears.
    if (this.first === undefined || !wasTold) {
      this.log.error({ fault }, `executor fault: ${describeFault(fault)}`);
      this.keep(fault);
      this.listener.fault(fault);
    }
    if (!current) return;
    this.listener.restarts(this.isHung ? 'hung' : (signal ?? `exit_${code}`));
    if (code === EXIT_TOLD) this.first?.reject(unavailable(`${ending.message}: ${fault.lastLine}`));
    this.session?.close();
    this.happen('gone', ending);
  }

  private keep(fault: Fault): void {
    const { stateFolder } = this.options;
    if (stateFolder === undefined) return;
    try {
      keepFault(stateFolder, fault);
    } catch (error) {
      this.log.warn({ err: error }, `the fault could not be kept in ${stateFolder}`);
    }
  }

  /** Ends the process, or gives it up. Its end makes `gone` happen. */
  private async terminate(child: ExecutorProcess | undefined): Promise<void> {
    this.session?.close();
    this.session = undefined;
    const stopping = this.state === 'stopped';
    if (child === undefined) {
      // Of an executor at an address only the connection was ours.
      if (stopping) return;
      this.listener.restarts(this.isHung ? 'hung' : 'connection');
      queueMicrotask(() => this.happen('gone'));
      return;
    }
    const exit = await child.end(this.isHung ? HUNG_GRACE_MS : GRACE_MS);
    if (exit !== undefined || this.process !== child) return;
    this.log.error({ pid: child.pid }, 'the executor cannot be killed; it is left behind');
    this.process = undefined;
    this.listener.restarts('unkillable');
    this.happen('gone');
  }

  private checkProgress(): void {
    const overdue = this.session?.watch.overdueMs(this.options.stepTimeoutMs);
    if (overdue === undefined) return;
    this.isHung = true;
    this.happen('overdue', unavailable(`no step came back for ${Math.round(overdue)} ms`));
  }
}

const unavailable = (message: string) => new RocmForgeError('EXECUTOR_UNAVAILABLE', message);
