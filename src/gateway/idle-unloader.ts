import { RocmForgeError } from '../shared/errors.js';
import type { Logger } from '../shared/log.js';
import type { SupervisorState } from './replica/link/supervision.js';
import type { Router } from './router.js';

/** Interval at which a model is checked for idleness: a tenth of its idle time, within these. */
const LEAST_LOOK_MS = 20;
const MOST_LOOK_MS = 1000;

export interface IdleUnloaderOptions {
  /** Number of the model's executors. */
  readonly replicas: number;
  /** True if they are started by requests alone. */
  readonly onDemand: boolean;
  /** After how long without anything to do the model is unloaded; absent: never. */
  readonly idleUnloadMs: number | undefined;
  /** True if requests may unload it, also without an idle time; default: with one. */
  readonly isUnloadable?: boolean;
}

/**
 * Unloads a model that has been idle for a while, and counts unloads and loads. The router loads it again when a request comes.
 */
export class IdleUnloader {
  /** Executors ended because the model was idle, and executors that have loaded it because a request came. */
  readonly counters = { unloads: 0, loads: 0 };
  private readonly away: Set<number>;
  private readonly timer: NodeJS.Timeout | undefined;
  private idleSince = performance.now();
  private seen = 0;
  /** It is in the log that the model is unloaded, which may take a while. */
  private isTold = false;
  /** Idle time after which it is unloaded, in ms. */
  private idleMs: number;

  constructor(
    private readonly router: Pick<Router, 'active' | 'submissions' | 'canServe' | 'isLoaded' | 'loads' | 'unloadModel'>,
    private readonly options: IdleUnloaderOptions,
    private readonly log: Logger,
  ) {
    const { replicas, onDemand } = options;
    this.idleMs = this.defaultIdleMs;
    this.away = new Set(onDemand ? Array.from({ length: replicas }, (_, i) => i) : []);
    if (!this.isUnloadable) return;
    const everyMs = Math.min(MOST_LOOK_MS, Math.max(LEAST_LOOK_MS, this.defaultIdleMs / 10));
    this.timer = setInterval(() => this.look(), everyMs);
    this.timer.unref();
  }

  /** True if it is unloaded: the next request loads it, or has begun to. */
  get isUnloaded(): boolean {
    return this.away.size === this.options.replicas && this.router.canServe;
  }

  /** A replica's supervisor is in another state. */
  heard(replica: number, state: SupervisorState): void {
    if (state === 'unloading') {
      this.counters.unloads += 1;
      this.idleMs = this.defaultIdleMs;
      this.away.add(replica);
      this.isTold = false;
    }
    if (state !== 'serving') return;
    if (this.away.delete(replica)) this.counters.loads += 1;
    // Whoever asked for it may have gone: the time that it took is not that of its use.
    this.idleSince = performance.now();
  }

  stop(): void {
    clearInterval(this.timer);
  }

  /**
   * Sets the idle time (ms) after which the model is unloaded, until another is set or the model is unloaded, as in Ollama: there the
   * requests of other APIs, and those without one, leave it as it is.
   *
   * @returns false if models are not unloaded; nothing is changed then
   */
  keepAlive(idleMs: number): boolean {
    if (!this.isUnloadable) return false;
    this.idleMs = idleMs;
    return true;
  }

  /**
   * Unloads the model when its requests have ended, until the next one comes. Resolves when it is unloaded, or the signal aborts.
   *
   * @returns false if models are not unloaded; nothing is changed then
   * @throws RocmForgeError `MODEL_LOADING` when the model is to be loaded meanwhile
   */
  async unload(signal: AbortSignal): Promise<boolean> {
    if (!this.isUnloadable) return false;
    const { loads } = this.router;
    while (!signal.aborted && this.router.isLoaded) {
      if (this.router.loads !== loads) {
        throw new RocmForgeError('MODEL_LOADING', 'the model was loaded before it was unloaded');
      }
      this.router.unloadModel();
      await new Promise((resolve) => setTimeout(resolve, LEAST_LOOK_MS));
    }
    // Also if it was unloaded before: the next load begins with the default.
    this.idleMs = this.defaultIdleMs;
    return true;
  }

  /** When the model is unloaded if no request comes, in ms since 1970; infinite if it is not. */
  unloadsAt(): number {
    const idleFor = this.router.active > 0 ? 0 : performance.now() - this.idleSince;
    return Date.now() + this.idleMs - idleFor;
  }

  private get isUnloadable(): boolean {
    return this.options.idleUnloadMs !== undefined || (this.options.isUnloadable ?? false);
  }

  private get defaultIdleMs(): number {
    return this.options.idleUnloadMs ?? Number.POSITIVE_INFINITY;
  }

  private look(): void {
    const { active, submissions, isLoaded } = this.router;
    const now = performance.now();
    if (active > 0 || submissions !== this.seen) {
      this.seen = submissions;
      this.idleSince = now;
      this.isTold = false;
      return;
    }
    if (!isLoaded || now - this.idleSince < this.idleMs) return;
    if (!this.isTold) this.log.info({ idleMs: Math.round(now - this.idleSince) }, 'the model is idle: it is unloaded');
    this.isTold = true;
    this.router.unloadModel();
  }
}
