import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import type { LoadModelRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../../shared/log.js';
import { ExecutorProcess, type ExecutorProcessOptions } from './executor-process.js';
import { ExecutorSession } from './executor-session.js';
import { Pace } from './pace.js';

export type SupervisorState = 'starting' | 'serving' | 'restarting' | 'failed' | 'stopped';

export interface SupervisorOptions {
  /** Start executors, or use the one at an address. */
  readonly executor: { readonly spawn: ExecutorProcessOptions } | { readonly address: string };
  readonly load: Omit<LoadModelRequest, 'generation'>;
  /** The least time a step gets before the executor counts as hung, in milliseconds. */
  readonly stepTimeoutMs: number;
  /** Deaths within {@link RESTART_WINDOW_MS} after which starting anew is given up for a while. */
  readonly maxRestarts: number;
}

/** Who hears of executors that come and go. */
export interface SupervisorListener {
  state(state: SupervisorState): void;
  progress(doneBytes: number, totalBytes: number): void;
  /** A new generation serves. The listener starts the session's stream. */
  serving(session: ExecutorSession): void;
  /** The session is gone, and with it all the executor held. Another follows unless the state is `failed`. */
  lost(error: RocmForgeError): void;
  /** The first step of a new executor came back, this long after the old one was lost. */
  recovered(seconds: number): void;
}

const CONNECT_TIMEOUT_MS = 20_000;
const WATCH_INTERVAL_MS = 100;
const FIRST_BACKOFF_MS = 50;
const LONGEST_BACKOFF_MS = 5_000;
export const RESTART_WINDOW_MS = 60_000;
const PROBE_INTERVAL_MS = 30_000;

/**
 * Keeps one executor running: starts it, loads the model, watches that steps come back, and starts another when it dies
 * or hangs. A completed step is what counts as life, not an answered ping.
 */
export class Supervisor {
  private current: SupervisorState = 'starting';
  private session: ExecutorSession | undefined;
  private process: ExecutorProcess | undefined;
  private generation = 0n;
  private deaths: number[] = [];
  private lostAt: number | undefined;
  private readonly pace = new Pace();
  private timer: NodeJS.Timeout | undefined;
  private readonly watch: NodeJS.Timeout;

  constructor(
    private readonly options: SupervisorOptions,
    private readonly listener: SupervisorListener,
    private readonly log: Logger,
  ) {
    this.watch = setInterval(() => this.checkProgress(), WATCH_INTERVAL_MS);
    this.watch.unref();
  }

  get state(): SupervisorState {
    return this.current;
  }

  /** Executors started so far. */
  get generations(): number {
    return Number(this.generation);
  }

  /** Milliseconds the step under way has taken; 0 when there is none. */
  get oldestStepAgeMs(): number {
    return this.session?.oldestStepAgeMs ?? 0;
  }

  /** The running executor's process id, where this gateway started it. */
  get pid(): number | undefined {
    return this.process?.pid;
  }

  /**
   * Starts the first executor.
   *
   * @throws RocmForgeError why it could not serve: at the start a wrong model file is the caller's to hear of
   */
  async start(): Promise<void> {
    await this.begin();
  }

  /** Steps come back: deaths before this do not count against the executor any more. */
  stepCompleted(): void {
    if (this.lostAt !== undefined) this.listener.recovered((performance.now() - this.lostAt) / 1000);
    this.lostAt = undefined;
    if (this.deaths.length > 0) this.deaths = [];
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    this.set('stopped');
    clearInterval(this.watch);
    clearTimeout(this.timer);
    this.session?.close();
    await this.process?.stop();
  }

  private async begin(): Promise<void> {
    this.generation += 1n;
    const generation = this.generation;
    let address: string;
    const { executor } = this.options;
    if ('spawn' in executor) {
      const child = new ExecutorProcess(executor.spawn, this.log);
      this.process = child;
      address = child.address;
      void child.exited.then(({ code, signal }) => {
        if (this.process !== child) return;
        this.process = undefined;
        const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
        this.sessionLost(generation, new RocmForgeError('EXECUTOR_UNAVAILABLE', `the executor ended ${how}`));
      });
    } else {
      address = executor.address;
    }
    const opening = ExecutorSession.open(
      address,
      { ...this.options.load, generation },
      this.pace,
      CONNECT_TIMEOUT_MS,
      (done, total) => this.listener.progress(done, total),
    );
    const session = await (this.process === undefined ? opening : Promise.race([opening, this.exitOf(this.process)]));
    if (this.current === 'stopped') {
      session.close();
      return;
    }
    this.session = session;
    this.set('serving');
    this.log.info(
      { generation: generation.toString(), pid: this.pid, device: session.info.device },
      'executor serving',
    );
    this.listener.serving(session);
  }

  /** Rejects when the process ends. */
  private async exitOf(child: ExecutorProcess): Promise<never> {
    const { code, signal, stderrTail } = await child.exited;
    const last = stderrTail.at(-1) ?? '';
    throw new RocmForgeError(
      'EXECUTOR_UNAVAILABLE',
      `the executor ended before it could serve (${signal ?? `exit code ${code}`}) ${last}`.trim(),
    );
  }

  /** For the engine: the session's stream broke. */
  sessionLost(generation: bigint, error: RocmForgeError): void {
    if (generation !== this.generation || this.current !== 'serving') return;
    const { session } = this;
    this.session = undefined;
    this.lostAt ??= performance.now();
    this.set('restarting');
    session?.close();
    this.log.warn({ reason: error.reason }, error.message);
    this.listener.lost(error);
    this.retireProcess();
    this.scheduleRestart();
  }

  private retireProcess(): void {
    const child = this.process;
    this.process = undefined;
    child?.kill();
  }

  private scheduleRestart(): void {
    const now = performance.now();
    this.deaths = [...this.deaths.filter((at) => now - at < RESTART_WINDOW_MS), now];
    const failed = this.deaths.length > this.options.maxRestarts;
    if (failed) this.set('failed');
    const exponential = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (this.deaths.length - 1));
    // Jitter, so that several gateways of one failed device do not come back in step. The first try is immediate.
    const delay = failed ? PROBE_INTERVAL_MS : this.deaths.length === 1 ? 0 : exponential * (0.5 + Math.random() / 2);
    this.timer = setTimeout(() => {
      this.begin().catch((error: unknown) => {
        if (this.current === 'stopped') return;
        this.log.error({ reason: asRocmForgeError(error).reason }, asRocmForgeError(error).message);
        this.retireProcess();
        this.scheduleRestart();
      });
    }, delay);
  }

  private checkProgress(): void {
    const overdue = this.session?.overdueMs(this.options.stepTimeoutMs);
    if (overdue === undefined) return;
    this.sessionLost(
      this.generation,
      new RocmForgeError('EXECUTOR_UNAVAILABLE', `no step came back for ${Math.round(overdue)} ms`),
    );
  }

  private set(state: SupervisorState): void {
    if (this.current === state || this.current === 'stopped') return;
    this.current = state;
    this.listener.state(state);
  }
}
