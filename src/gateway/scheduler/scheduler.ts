import { BLOCK_TOKENS, BlockManager, blocksFor, hashOf, NO_PREFIX } from './block-manager.js';
import { isComing, PromisedPrefixes } from './promised-prefixes.js';
import type { Sequence } from './sequence.js';

export interface SchedulerOptions {
  /** Slots of the executor: the most sequences that run at once. */
  readonly maxSequences: number;
  /** The most rows of one step, shared by prompts and generation. */
  readonly maxStepTokens: number;
  /** KV blocks of the executor, the null block included. */
  readonly kvBlocks: number;
  /** Look for prompts' beginnings among blocks that were computed before; default true. */
  readonly prefixCache?: boolean;
}

/** What one step is to do. Blocks and slots are allotted; nothing is sent yet. */
export interface StepPlan {
  readonly stepId: number;
  readonly closes: readonly number[];
  readonly opens: readonly { readonly sequence: Sequence; readonly slot: number; readonly blocks: readonly number[] }[];
  readonly appends: readonly { readonly slot: number; readonly blocks: readonly number[] }[];
  readonly slices: readonly PlannedSlice[];
}

export interface PlannedSlice {
  readonly sequence: Sequence;
  readonly slot: number;
  readonly position: number;
  readonly count: number;
  /** Whether the token after the slice is sampled. */
  readonly sample: boolean;
  /** Whether each position whose next token is in the prompt returns that token's log probability. */
  readonly promptLogprobs: boolean;
}

/** A token that a step brought for a sequence that still wants it. `index` counts the step's sampled slices. */
export interface StepToken {
  readonly sequence: Sequence;
  readonly index: number;
}

/** The blocks of a prompt's beginning that were computed before. */
interface FoundPrefix {
  readonly blocks: readonly number[];
  /** Its number in the block manager. */
  readonly prefix: number;
  /** Its hash, as {@link PromisedPrefixes} goes on from. */
  readonly hash: number;
}

/** What has come back. */
export interface StepResult {
  readonly slices: readonly PlannedSlice[];
  readonly tokens: readonly StepToken[];
}

/**
 * A sequence is preempted at most this often. Then it waits, and others behind it, until it gets all the blocks it may ever
 * need, and keeps them.
 */
const MAX_PREEMPTIONS = 3;
/** Free blocks, as a part of all, that new sequences leave to those that run. */
const WATERMARK = 0.01;

/**
 * Decides what each step computes. Pure: no clock, no input or output, no promise. Sequences and results go in, plans
 * come out.
 *
 * Each sequence catches up with its length; one budget of rows a step is shared by all, running sequences first. A
 * sequence's blocks and slot are given up when the last step that names it has returned, never earlier: a step under way
 * still writes to them.
 */
export class Scheduler {
  readonly blocks: BlockManager;
  /** Who may be in the next step; see {@link Blame}. */
  mayRun: (sequence: Sequence) => boolean = () => true;
  readonly counters = { preemptions: 0, cachedTokens: 0, discardedTokens: 0 };
  private waiting: Sequence[] = [];
  private running: Sequence[] = [];
  private readonly ending = new Set<Sequence>();
  private freeSlots: number[] = [];
  private closes: number[] = [];
  private inFlight: StepPlan[] = [];
  private readonly promised = new PromisedPrefixes();
  private arrivals = 0;
  private steps = 0;

  constructor(private readonly options: SchedulerOptions) {
    this.blocks = new BlockManager(options.kvBlocks);
    this.resetSlots();
  }

  get waitingCount(): number {
    return this.waiting.length;
  }

  get runningCount(): number {
    return this.running.length;
  }

  /** Steps planned whose results have not come. */
  get stepsInFlight(): number {
    return this.inFlight.length;
  }

  /** The slices of all steps under way, in order. */
  get slicesInFlight(): readonly PlannedSlice[] {
    return this.inFlight.flatMap((plan) => plan.slices);
  }

  /** Tokens of prompts that wait. */
  get waitingTokens(): number {
    return this.waiting.reduce((sum, sequence) => sum + sequence.known, 0);
  }

  /** Whether a sequence of this many tokens in all could ever run. */
  canEverRun(tokens: number): boolean {
    return blocksFor(tokens) <= this.blocks.capacity;
  }

  add(sequence: Sequence): void {
    sequence.arrival = ++this.arrivals;
    this.enqueue(sequence);
  }

  /** The sequence wants no more tokens: it stopped, was cancelled or ran out of time. */
  end(sequence: Sequence): void {
    if (sequence.state === 'ended') return;
    const wasWaiting = sequence.state === 'waiting';
    sequence.state = 'ended';
    if (wasWaiting) {
      this.remove(this.waiting, sequence);
      return;
    }
    this.remove(this.running, sequence);
    if (sequence.inFlight === 0) this.release(sequence);
    else this.ending.add(sequence);
  }

  /** The next step, or nothing to do. The caller sends it; results come back in the order of plans. */
  plan(): StepPlan | undefined {
    const opens: { sequence: Sequence; slot: number; blocks: readonly number[] }[] = [];
    const appends: { slot: number; blocks: readonly number[] }[] = [];
    const slices: PlannedSlice[] = [];
    let budget = this.options.maxStepTokens;
    let extraLogits = 0;
    let pressed = false;
    const add = (sequence: Sequence, count: number): void => {
      const slice = this.slice(sequence, count);
      slices.push(slice);
      budget -= count;
      if (slice.promptLogprobs) extraLogits += count - 1;
    };

    for (const sequence of [...this.running]) {
      if (sequence.state !== 'running' || budget === 0 || !this.mayRun(sequence)) continue;
      const count = this.countOf(sequence, budget, extraLogits);
      if (count === 0) continue;
      const needed = blocksFor(sequence.scheduled + count) - sequence.blocks.length;
      if (needed > 0) {
        if (!this.makeRoom(needed, sequence)) {
          pressed = true;
          continue;
        }
        const added = this.blocks.allocate(needed);
        sequence.blocks.push(...added);
        appends.push({ slot: sequence.slot as number, blocks: added });
      }
      add(sequence, count);
    }

    // Sequences that drain wait for room themselves: admitting others now would take it from them.
    pressed ||= this.running.some((sequence) => sequence.state === 'draining');
    while (!pressed && budget > 0 && this.freeSlots.length > 0 && this.spareLogits(extraLogits) > 0) {
      const sequence = this.waiting.find((candidate) => this.mayStart(candidate));
      if (sequence === undefined) break;
      const found = this.findPrefix(sequence);
      if (this.waitsForPrefix(sequence, found)) continue;
      if (!this.admit(sequence, budget, found)) break;
      this.remove(this.waiting, sequence);
      opens.push({ sequence, slot: sequence.slot as number, blocks: sequence.blocks.slice() });
      add(sequence, this.countOf(sequence, budget, extraLogits));
    }

    if (slices.length === 0) return undefined;
    const plan: StepPlan = { stepId: ++this.steps, closes: this.closes, opens, appends, slices };
    this.closes = [];
    this.inFlight.push(plan);
    return plan;
  }

  /**
   * The oldest step under way has returned.
   *
   * @param tokens the sampled token of each slice with `sample`, in order
   * @returns what the step computed, and the tokens that somebody still wants; they are emitted already
   */
  complete(tokens: readonly number[]): StepResult {
    const plan = this.inFlight.shift();
    if (plan === undefined) throw new Error('a result came for no step');
    const wanted: StepToken[] = [];
    let index = 0;
    for (const { sequence, position, count, sample } of plan.slices) {
      sequence.inFlight -= 1;
      sequence.computed = position + count;
      if (sample) {
        sequence.pending -= 1;
        if (sequence.state === 'ended') {
          this.counters.discardedTokens += 1;
        } else {
          sequence.emitted.push(tokens[index] as number);
          wanted.push({ sequence, index });
        }
        index += 1;
      }
      if (sequence.state === 'running' || sequence.state === 'draining') this.registerFullBlocks(sequence);
      if (sequence.inFlight === 0 && sequence.state === 'draining') this.requeue(sequence);
      if (sequence.inFlight === 0 && sequence.state === 'ended' && this.ending.delete(sequence)) this.release(sequence);
    }
    return { slices: plan.slices, tokens: wanted };
  }

  /** The executor is gone and with it all it held: every sequence waits again, oldest first, to be computed anew. */
  reset(): void {
    for (const sequence of this.running) {
      sequence.forgetDevice();
      sequence.state = 'waiting';
      this.enqueue(sequence);
    }
    this.running = [];
    this.ending.clear();
    this.closes = [];
    this.inFlight = [];
    this.blocks.reset();
    this.promised.clear();
    this.resetSlots();
  }

  /** Throws when a block or slot has not exactly one fate. */
  check(): void {
    const holders = [...this.running, ...this.ending];
    this.blocks.check(holders.map((sequence) => sequence.blocks));
    const slots = [...this.freeSlots, ...holders.map((sequence) => sequence.slot)];
    if (new Set(slots).size !== this.options.maxSequences || slots.length !== this.options.maxSequences) {
      throw new Error(`slots ${slots.join(', ')} are not 0 to ${this.options.maxSequences - 1}, each once`);
    }
  }

  /** A completion waits for the first of its request to have computed their prompt, and then finds its blocks. */
  private mayStart(sequence: Sequence): boolean {
    const { leader } = sequence.options;
    if (sequence.paused || !this.mayRun(sequence)) return false;
    const { awaited } = sequence;
    if (awaited !== undefined && isComing(awaited) && this.mayRun(awaited.maker)) return false;
    if (leader === undefined || leader.state === 'ended' || !this.takesFor(sequence)) return true;
    return leader.computed >= leader.options.promptIds.length;
  }

  /** Rows of logits that are left when each running sequence has one: the executor has as many as it has slots. */
  private spareLogits(extraLogits: number): number {
    return this.options.maxSequences - this.running.length - extraLogits;
  }

  /** How far a sequence goes in a step. */
  private countOf(sequence: Sequence, budget: number, extraLogits: number): number {
    const count = Math.min(sequence.behind, budget);
    // Each position of such a prompt takes a row of logits, the first of them the sequence's own.
    return sequence.asksPromptLogprobs ? Math.min(count, 1 + this.spareLogits(extraLogits)) : count;
  }

  private slice(sequence: Sequence, count: number): PlannedSlice {
    const position = sequence.scheduled;
    const promptLogprobs = sequence.asksPromptLogprobs;
    const sample = position + count === sequence.length;
    sequence.scheduled += count;
    sequence.inFlight += 1;
    if (sample) sequence.pending += 1;
    return { sequence, slot: sequence.slot as number, position, count, sample, promptLogprobs };
  }

  /** Whether another sequence computes what this one needs now; see {@link mayStart}. */
  private waitsForPrefix(sequence: Sequence, found: FoundPrefix): boolean {
    if (!this.takesFor(sequence)) return false;
    sequence.awaited = this.promised.find(sequence, found.blocks.length, found.hash);
    return sequence.awaited !== undefined && this.mayRun(sequence.awaited.maker);
  }

  /** Gives a waiting sequence a slot and the blocks of its first slice, as many as possible from the prefix cache. */
  private admit(sequence: Sequence, budget: number, found: FoundPrefix): boolean {
    const start = found.blocks.length * BLOCK_TOKENS;
    const end = isProtected(sequence) ? sequence.lastPosition : start + Math.min(sequence.known - start, budget);
    const needed = blocksFor(end) - found.blocks.length;
    const fromFree = needed + found.blocks.filter((block) => this.blocks.isFree(block)).length;
    const spare = this.running.length === 0 ? 0 : Math.ceil(this.blocks.capacity * WATERMARK);
    if (!this.blocks.canAllocate(fromFree + spare)) return false;

    for (const block of found.blocks) this.blocks.share(block);
    sequence.blocks = [...found.blocks, ...this.blocks.allocate(needed)];
    sequence.slot = this.freeSlots.pop() as number;
    sequence.computed = start;
    sequence.scheduled = start;
    sequence.registeredBlocks = found.blocks.length;
    sequence.registeredPrefix = found.prefix;
    sequence.state = 'running';
    if (sequence.preemptions === 0 && sequence.emitted.length === 0) {
      sequence.cachedTokens = start;
      this.counters.cachedTokens += start;
    }
    // One whose log probabilities are asked for may take a step a token: nobody should wait for that.
    if (this.caches && !sequence.asksPromptLogprobs) {
      this.promised.promise(sequence, found.blocks.length, found.hash);
    }
    this.running.push(sequence);
    this.running.sort(byUrgency);
    return true;
  }

  /** The longest findable run of full blocks that leaves at least one token to compute. */
  private findPrefix(sequence: Sequence): FoundPrefix {
    const blocks: number[] = [];
    let prefix = NO_PREFIX;
    let hash = 0;
    if (!this.takesFor(sequence)) return { blocks, prefix, hash };
    const ids = sequence.tokens();
    for (let end = BLOCK_TOKENS; end < ids.length; end += BLOCK_TOKENS) {
      const tokens = ids.subarray(end - BLOCK_TOKENS, end);
      const found = this.blocks.find(prefix, tokens);
      if (found === undefined) break;
      blocks.push(found.block);
      prefix = found.prefix;
      hash = hashOf(hash, tokens);
    }
    return { blocks, prefix, hash };
  }

  private registerFullBlocks(sequence: Sequence): void {
    if (!this.caches) return;
    const full = Math.floor(sequence.computed / BLOCK_TOKENS);
    for (let i = sequence.registeredBlocks; i < full; i++) {
      const ids = Uint32Array.from({ length: BLOCK_TOKENS }, (_, j) => sequence.token(i * BLOCK_TOKENS + j));
      sequence.registeredPrefix = this.blocks.register(sequence.blocks[i] as number, sequence.registeredPrefix, ids);
    }
    sequence.registeredBlocks = Math.max(sequence.registeredBlocks, full);
  }

  private get caches(): boolean {
    return this.options.prefixCache ?? true;
  }

  private takesFor(sequence: Sequence): boolean {
    return this.caches && (sequence.options.takesPrefix ?? true);
  }

  /** Preempts until `blocks` are free. False: not yet, those preempted have steps under way. */
  private makeRoom(blocks: number, forSequence: Sequence): boolean {
    while (!this.blocks.canAllocate(blocks)) {
      if (this.running.some((sequence) => sequence.state === 'draining')) return false;
      const victim = this.victim(forSequence);
      this.counters.preemptions += 1;
      victim.preemptions += 1;
      victim.state = 'draining';
      if (victim.inFlight === 0) this.requeue(victim);
      if (victim === forSequence) return false;
    }
    return true;
  }

  /** The least urgent running sequence that was not preempted too often; never one more urgent than the one in need. */
  private victim(forSequence: Sequence): Sequence {
    for (let i = this.running.length - 1; i >= 0; i--) {
      const sequence = this.running[i] as Sequence;
      if (sequence === forSequence) break;
      if (sequence.state === 'running' && !isProtected(sequence)) return sequence;
    }
    return forSequence;
  }

  /** A drained sequence gives up its slot and waits again. */
  private requeue(sequence: Sequence): void {
    this.remove(this.running, sequence);
    this.release(sequence);
    sequence.forgetDevice();
    sequence.state = 'waiting';
    this.enqueue(sequence);
  }

  private release(sequence: Sequence): void {
    this.promised.forget(sequence);
    // The last first: blocks are taken oldest first, and a block is found through those before it alone.
    for (const block of sequence.blocks.toReversed()) this.blocks.release(block);
    sequence.blocks = [];
    this.closes.push(sequence.slot as number);
    this.freeSlots.push(sequence.slot as number);
    sequence.slot = undefined;
  }

  private enqueue(sequence: Sequence): void {
    const at = this.waiting.findIndex((other) => byUrgency(sequence, other) < 0);
    this.waiting.splice(at < 0 ? this.waiting.length : at, 0, sequence);
  }

  private remove(list: Sequence[], sequence: Sequence): void {
    const at = list.indexOf(sequence);
    if (at >= 0) list.splice(at, 1);
  }

  private resetSlots(): void {
    this.freeSlots = Array.from({ length: this.options.maxSequences }, (_, i) => this.options.maxSequences - 1 - i);
  }
}

/** Whether it was preempted as often as may be; when it runs, it holds all its blocks. */
function isProtected(sequence: Sequence): boolean {
  return sequence.preemptions >= MAX_PREEMPTIONS;
}

/** Higher priority first, then older first. */
function byUrgency(a: Sequence, b: Sequence): number {
  return b.options.priority - a.options.priority || a.arrival - b.arrival;
}
