import type { ExecutorServiceClient } from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../../../shared/log.js';
import type { ExecutorProcess } from './executor-process.js';

/** Time that an executor may take to end by itself once it is not needed. */
const GRACE_MS = 2000;
const FIRST_RETRY_MS = 1000;
const LONGEST_RETRY_MS = 60_000;

/** A process that has the model loaded, or will when `isReady` has resolved; it rejects with why it has not. */
export interface Spare {
  readonly process: ExecutorProcess;
  /** Its connection, which ends with the process at the latest. */
  readonly isReady: Promise<ExecutorServiceClient>;
}

/** Starts a process, and loads the model in it. */
export type StartSpare = () => Spare;

/**
 * Keeps a spare executor beside the one that serves, so that the next one need not be started and loaded when that one is
 * lost. It computes nothing before it is taken, and only the caller knows that the one before has ended.
 */
export class SpareExecutor {
  private spare: Spare | undefined;
  private timer: NodeJS.Timeout | undefined;
  private failures = 0;
  private ready = false;

  constructor(
    private readonly start: StartSpare,
    private readonly log: Logger,
  ) {}

  /** True if one is loaded. */
  get isReady(): boolean {
    return this.ready;
  }

  /** Starts one where there is none, in a while: what serves again has more to do now than at any other time. */
  ensure(afterMs: number): void {
    if (this.spare !== undefined) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.begin(), afterMs);
    this.timer.unref();
  }

  /** Gives the spare away; undefined where there is none, or none that could be loaded. */
  take(): Spare | undefined {
    clearTimeout(this.timer);
    const { spare } = this;
    this.spare = undefined;
    this.ready = false;
    return spare;
  }

  /** Ends it. Another follows when it is asked for. */
  async stop(): Promise<void> {
    await this.take()?.process.end(GRACE_MS);
  }

  private begin(): void {
    let spare: Spare;
    try {
      spare = this.start();
    } catch (error) {
      this.retry(error);
      return;
    }
    this.spare = spare;
    spare.isReady.then(
      () => {
        if (this.spare !== spare) return;
        this.ready = true;
        this.failures = 0;
        this.log.info({ executorPid: spare.process.pid }, 'spare executor ready');
      },
      (error) => {
        if (this.spare !== spare) return;
        void this.stop();
        this.retry(error);
      },
    );
    void spare.process.exited.then(() => {
      if (this.spare !== spare) return;
      this.take();
      this.retry(undefined);
    });
  }

  private retry(error: unknown): void {
    const ms = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures);
    this.failures += 1;
    this.log.warn({ err: error, retryMs: ms }, 'no spare executor');
    this.ensure(ms);
  }
}
