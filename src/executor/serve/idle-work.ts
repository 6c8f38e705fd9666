import type { Device } from '../device/device.js';
import type { LoadOptions } from '../load/load-options.js';
import type { LoadedModel } from '../load/loaded-model.js';
import type { StepRunner } from '../steps/step-runner.js';
import { rehearse } from './rehearsal.js';

/** Between two captures of graphs; one takes some 2 ms. */
const INTERVAL_MS = 5;
/** Time for the first steps of a recovery, which end a pause of all streams: this work would delay them. */
const DELAY_MS = 500;

/**
 * Work of an executor on a GPU while nothing is asked of it: it captures the graphs that the load has left to later, and one that has
 * run no step yet, a spare above all, runs steps on devices that only count, because V8 compiles a first step for 30 ms.
 */
export class IdleWork {
  private timer: NodeJS.Timeout | undefined;
  private hasRehearsed = false;

  /**
   * @param serving the runner of the steps that are served; undefined while a load is under way
   * @param failed receives what goes wrong with a capture
   * @param practise for tests
   */
  constructor(
    private readonly devices: readonly Device[],
    private readonly serving: () => StepRunner | undefined,
    private readonly failed: (error: unknown) => void,
    private readonly practise = rehearse,
  ) {}

  /** Begins half a second from now, between the steps of a runner. */
  begin(runner: StepRunner, { graphs }: LoadedModel, options: LoadOptions): void {
    clearInterval(this.timer);
    const [first] = this.devices as readonly [Device];
    if (first.isHost) return;
    const isOver = (): boolean => this.serving() !== runner || !runner.isIdle || runner.stats.steps > 0;
    const dueAt = performance.now() + DELAY_MS;
    const timer = setInterval(() => {
      if (this.serving() !== runner || !runner.isIdle || performance.now() < dueAt) return;
      if (!graphs.isComplete) {
        try {
          graphs.captureNext();
        } catch (error) {
          this.failed(error);
        }
        return;
      }
      clearInterval(timer);
      if (this.hasRehearsed || isOver()) return;
      this.hasRehearsed = true;
      // The load itself went well, and nothing needs a rehearsal.
      void this.practise(options, { target: first.target, count: this.devices.length }, isOver).catch(() => undefined);
    }, INTERVAL_MS).unref();
    this.timer = timer;
  }
}
