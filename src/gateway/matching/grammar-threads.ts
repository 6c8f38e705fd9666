import { RocmForgeError } from '../../shared/errors.js';
import { workerFile } from '../../shared/worker-file.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { SpecialTokenNames } from '../constraints/special-token-names.js';
import { type JobOwner, WorkerPool } from '../threads/worker-pool.js';

/** Data that a thread is started with. */
export interface GrammarThread {
  readonly names: SpecialTokenNames;
  /** True if it is started before it is needed: it warms up. */
  readonly isEarly: boolean;
}

export interface GrammarThreadsOptions {
  readonly names: SpecialTokenNames;
  /** Threads; each is started when it is needed, or by {@link GrammarThreads.warmUp}. */
  readonly threads: number;
  /** Constraints that wait for a thread. */
  readonly maxWaiting: number;
}

const MAX_HEAP_MB = 512;
const YOUNG_HEAP_MB = 6;

/**
 * Threads that turn constraints into grammars, which takes milliseconds, or seconds at most: it is counted work. One client's
 * constraints have all threads but one: that is for the others.
 */
export class GrammarThreads {
  private readonly pool: WorkerPool<GivenConstraint, Uint8Array>;

  constructor({ names, threads, maxWaiting }: GrammarThreadsOptions) {
    this.pool = new WorkerPool({
      name: 'grammar',
      file: workerFile('grammar-worker'),
      data: (isEarly) => ({ names, isEarly }) satisfies GrammarThread,
      threads,
      threadsOfOne: Math.max(1, threads - 1),
      heapMb: MAX_HEAP_MB,
      youngHeapMb: YOUNG_HEAP_MB,
      maxJobs: maxWaiting,
      errors: {
        full: (waiting) =>
          new RocmForgeError('QUEUE_FULL', `${waiting} constraints wait for compilation; try again later`),
        closed: () => new RocmForgeError('SHUTTING_DOWN', 'this gateway is shutting down'),
        lost: (how, _, cause) => new RocmForgeError('INTERNAL', `the thread of a grammar ${how}`, {}, { cause }),
        late: (took) => new RocmForgeError('INTERNAL', `a grammar ${took}`),
      },
    });
  }

  /**
   * The buffer of a constraint's grammar.
   *
   * @param begun called when a thread takes the constraint
   * @throws RocmForgeError as `grammarOf`; `QUEUE_FULL` where this client has its part of those that wait; `SHUTTING_DOWN`. The reason
   *   of the caller's signal where that is aborted while it waits
   */
  make(constraint: GivenConstraint, owner: JobOwner, begun: () => void = () => undefined): Promise<Uint8Array> {
    return this.pool.run({ input: constraint, owner, begun });
  }

  /** Starts a thread before it is needed, and lets V8 compile its code: the first constraint takes ten times as long without that. */
  warmUp(): void {
    this.pool.startEarly();
  }

  close(): Promise<void> {
    return this.pool.close();
  }
}
