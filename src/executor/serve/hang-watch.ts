import { RocmForgeError } from '../../shared/errors.js';
import { StallTolerantClock } from '../../shared/stall-tolerant-clock.js';
import type { StepRunner } from '../steps/step-runner.js';

const WATCH_INTERVAL_MS = 50;
/** Milliseconds that a step may be overdue before a standalone executor ends itself. */
const HANG_LIMIT_MS = 5000;
/** When to ask again who met a device that hangs. */
const RETRY_MS = 1000;

/** Receiver of notices about steps that do not come back. */
export interface HangListener {
  /** A step is overdue, by so many milliseconds. */
  hangs(overdueMs: number): void;
  /** It has come back after all. */
  goesOn(): void;
  /** It has not for long. */
  isLost(): void;
}

/** Watches the steps under way: a device that hangs leaves the event loop healthy. */
export class HangWatch {
  readonly clock = new StallTolerantClock(WATCH_INTERVAL_MS);
  /** When a step was first seen to be overdue; absent while none is. */
  private sinceMs: number | undefined;

  /**
   * @param runner of the epoch that is served, if any
   * @param stepTimeoutMs the least time that a step gets
   */
  constructor(
    private readonly runner: () => StepRunner | undefined,
    private readonly stepTimeoutMs: number,
    private readonly listener: HangListener,
  ) {
    setInterval(() => {
      this.clock.tick();
      // Messages that arrived while this process was held up are read first.
      setImmediate(() => this.check());
    }, WATCH_INTERVAL_MS).unref();
  }

  /**
   * Waits for the steps of the epoch that is served. A device that hangs with one of them would hang with any other, of which a
   * gateway would conclude that its own sequences are at fault.
   *
   * @throws RocmForgeError `EXECUTOR_BUSY` when one does not come back
   */
  async stepsEnded(): Promise<void> {
    while (this.runner()?.isIdle === false) {
      if (this.sinceMs !== undefined) {
        const wait = { retry_delay_ms: String(RETRY_MS) };
        throw new RocmForgeError('EXECUTOR_BUSY', 'a step of the epoch before does not come back', wait);
      }
      await new Promise((resolve) => setTimeout(resolve, WATCH_INTERVAL_MS));
    }
  }

  private check(): void {
    const overdueMs = this.runner()?.overdueMs(this.stepTimeoutMs);
    const { nowMs } = this.clock;
    if (overdueMs === undefined) {
      if (this.sinceMs !== undefined) this.listener.goesOn();
      this.sinceMs = undefined;
      return;
    }
    if (this.sinceMs === undefined) this.listener.hangs(overdueMs);
    this.sinceMs ??= nowMs;
    if (nowMs - this.sinceMs >= HANG_LIMIT_MS) this.listener.isLost();
  }
}
