import type { TokenConstraint, TokenMask } from '../../src/gateway/matching/token-constraint.js';
import { Scheduler, type SchedulerOptions } from '../../src/gateway/replica/scheduler/scheduler.js';
import { GREEDY, Sequence } from '../../src/gateway/request/sequence.js';
import { ExecutorModel, tokenAfter } from './executor-model.js';
import { SAVED_BYTES } from './saved-model.js';

/** So many that a step compares a few blocks. */
const BLOCK_BYTES = { blocks: 4, windowBlocks: 4, snapshots: 4, mostCompared: 10 };

/** Token ids of the world. */
export const VOCABULARY = 50;

/** Limits with which nothing runs out. */
export const roomy = { maxSequences: 8, maxStepTokens: 64, kvBlocks: 200, prefixCache: true };

/** A prompt of rising token ids. */
export const ids = (length: number, from = 0): number[] => Array.from({ length }, (_, i) => (from + i) % VOCABULARY);

/** In place of a lookup: up to three draft tokens, of which the first ones are right; how many of each, the position decides. */
class Drafter {
  constructor(private readonly sequence: Sequence) {}

  draftTokens(known: number, most: number): number[] {
    const tokens = Array.from({ length: known }, (_, i) => this.sequence.token(i));
    const right = (known * 7) % 4;
    const draftTokens: number[] = [];
    while (draftTokens.length < Math.min(most, (known * 5) % 4)) {
      const next = tokenAfter([...tokens, ...draftTokens], VOCABULARY);
      draftTokens.push(draftTokens.length < right ? next : (next + 1) % VOCABULARY);
    }
    return draftTokens;
  }

  learn(): void {}
}

/** A sequence of any peer; `asks` for log probabilities of its prompt. */
export function sequenceOf(
  promptIds: number[],
  maxTokens: number,
  { priority = 0, asks = false, peer = '', draftTokens = false, isConstrained = false }: SequenceWishes = {},
): Sequence {
  const sampling = asks ? { ...GREEDY, promptLogprobs: 1 } : GREEDY;
  const ids = Uint32Array.from(promptIds);
  const constraint = isConstrained ? (anything as TokenConstraint) : undefined;
  const options = { promptIds: ids, sampling, maxTokens, priority, peer, takesPrefix: !asks, constraint };
  const sequence = new Sequence({ ...options, speculates: draftTokens });
  return draftTokens ? Object.assign(sequence, { drafter: new Drafter(sequence) }) : sequence;
}

const MASK = { onlyEnds: false } as TokenMask;
/** Allows everything; for some plans the mask is not there yet, and comes after them. */
const anything: { mask: TokenMask | undefined } = { mask: MASK };

interface SequenceWishes {
  readonly priority?: number;
  readonly asks?: boolean;
  readonly peer?: string;
  readonly draftTokens?: boolean;
  readonly isConstrained?: boolean;
}

/** Bytes that a step copies to or from the host's memory: few blocks, so that sequences begin while others are still copied. */
const STEP_BYTES = 3 * SAVED_BYTES.blocks;

/** A scheduler and an executor that checks it, driven by hand. */
export class World {
  readonly scheduler: Scheduler;
  readonly executor: ExecutorModel;
  readonly finished: Sequence[] = [];
  private plans = 0;
  private readonly stopAt = new Map<Sequence, number>();

  constructor(
    readonly options: SchedulerOptions,
    private readonly depth: number,
  ) {
    this.scheduler = new Scheduler(options);
    this.scheduler.checksums.isWanted = true;
    this.scheduler.openBlocks.isWanted = options.isRecurrent !== true;
    this.executor = new ExecutorModel(VOCABULARY, options);
  }

  /** `stopAt`: the number of tokens after which its stop rule will match, unknown to the scheduler. */
  add(sequence: Sequence, stopAt: number): void {
    this.stopAt.set(sequence, stopAt);
    this.scheduler.saving.cancel();
    this.scheduler.add(sequence);
  }

  plan(): boolean {
    if (this.scheduler.stepsInFlight >= this.depth) return false;
    this.plans += 1;
    anything.mask = this.plans % 3 === 0 ? undefined : MASK;
    const plan = this.scheduler.plan();
    anything.mask = MASK;
    if (plan === undefined) return false;
    this.executor.send(plan);
    this.scheduler.check();
    return true;
  }

  complete(): boolean {
    if (this.scheduler.stepsInFlight === 0) return false;
    const tokens = this.executor.run();
    const { checksums, openChecksums } = this.executor;
    for (const { sequence } of this.scheduler.complete(tokens, [], undefined, checksums, true, openChecksums).tokens) {
      const { maxTokens } = sequence.options;
      // The first of several tokens of a step may have been its last.
      if (sequence.state === 'ended') continue;
      if (sequence.emitted.length >= Math.min(maxTokens, this.stopAt.get(sequence) as number)) this.end(sequence, true);
    }
    this.scheduler.check();
    return true;
  }

  end(sequence: Sequence, isFinished: boolean): void {
    this.scheduler.end(sequence);
    if (isFinished) this.finished.push(sequence);
  }

  crash(): void {
    this.executor.crash();
    this.scheduler.suspend();
    this.scheduler.forgetContents();
    this.scheduler.check();
  }

  /**
   * The model is unloaded when nothing is left to do, and loaded again: the next executor has other memory, and the host's.
   *
   * @param most bytes of the host's memory
   * @param isDamaged whether something writes to it meanwhile
   * @returns false if something waits for something else
   */
  unload(most: number, isDamaged: boolean): boolean {
    this.drain();
    const { scheduler, executor } = this;
    if (scheduler.waitingCount + scheduler.runningCount > 0) return false;
    scheduler.saving.begin(SAVED_BYTES, most, STEP_BYTES);
    this.drain();
    const { contents } = scheduler.saving;
    if (contents === undefined) throw new Error('the copies do not end');
    executor.crash();
    if (isDamaged) executor.saved.damage();
    scheduler.suspend();
    scheduler.restoreContents(contents);
    scheduler.check();
    return true;
  }

  /** See `ExecutorModel.kill`: the next executor has the same memory. */
  kill(steps: number, isTorn: boolean): void {
    this.executor.kill(steps, isTorn);
    this.scheduler.suspend();
    this.scheduler.keepContents(BLOCK_BYTES);
    this.scheduler.check();
  }

  /** The executor faults: the next one has the same memory, to which it may have written anywhere. */
  fault(steps: number, isTorn: boolean, damage: number | undefined): void {
    this.scheduler.checksums.suspect();
    this.executor.kill(steps, isTorn);
    if (damage !== undefined) this.executor.damage(damage);
    this.scheduler.suspend();
    this.scheduler.keepContents(BLOCK_BYTES);
    this.scheduler.check();
  }

  /** Until nothing is left to do; fails when it does not come to an end. */
  drain(): void {
    for (let i = 0; i < 20_000; i++) if (!this.plan() && !this.complete()) return;
    throw new Error('the sequences do not end');
  }
}

/** The tokens of a plain run: one sequence, one token at a time. */
export function expectedTokens(sequence: Sequence): number[] {
  const tokens = [...sequence.options.promptIds];
  const start = tokens.length;
  while (tokens.length - start < sequence.emitted.length) tokens.push(tokenAfter(tokens, VOCABULARY));
  return tokens.slice(start);
}
