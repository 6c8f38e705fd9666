import { RocmForgeError } from '../../shared/errors.js';
import type { Generation } from '../request/generation.js';

/** Generations whose readers hold them up, each with a time after which it is given up. */
export class PausedReaders {
  private readonly timers = new Map<Generation, NodeJS.Timeout>();

  /** @param cancel told of a generation that stayed paused for `limitMs`, with `SLOW_READER` */
  constructor(
    private readonly limitMs: number,
    private readonly cancel: (generation: Generation, error: RocmForgeError) => void,
  ) {}

  /** The reader of a generation does not keep up: its time begins. */
  add(generation: Generation): void {
    this.delete(generation);
    const timer = setTimeout(() => {
      this.timers.delete(generation);
      const message = `the stream was not read for ${this.limitMs / 1000} s`;
      this.cancel(generation, new RocmForgeError('SLOW_READER', message));
    }, this.limitMs);
    this.timers.set(generation, timer);
  }

  /** It keeps up again, or the generation has ended. */
  delete(generation: Generation): void {
    clearTimeout(this.timers.get(generation));
    this.timers.delete(generation);
  }
}
