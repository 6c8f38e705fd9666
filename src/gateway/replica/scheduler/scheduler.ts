// One file because each rule here changes the same state: running and ending sequences, and steps in flight. Decisions that do not
// need that state are in the files beside it.
import type { TokenMask } from '../../matching/token-constraint.js';
import type { DraftToken, Sequence } from '../../request/sequence.js';
import { newSchedulerCounters } from '../replica-counts.js';
import { type BlockBytes, BlockChecksums, type BlockKind, blocksOf, type PlannedChecksums } from './block-checksums.js';
import { BLOCK_TOKENS, BlockManager, blocksFor } from './block-manager.js';
import { BlockRestores } from './block-restores.js';
import { DraftPolicy, type StepTimes } from './draft-policy.js';
import { isPending } from './in-flight-prefixes.js';
import { OpenBlocks } from './open-blocks.js';
import { byPriority, PeerQueue } from './peer-queue.js';
import { holderOfTooMany, idleFor, isProtected, victimFor } from './preemption.js';
import { type FoundPrefix, PrefixCache } from './prefix-cache.js';
import { BlockSaving, type SavedContents } from './saved-blocks.js';
import { Slots } from './slots.js';
import { type SnapshotRule, StateSnapshots } from './state-snapshots.js';
import {
  outputsOf,
  type PlannedAppend,
  type PlannedOpen,
  type PlannedSlice,
  type StepPlan,
  type StepResult,
  type StepToken,
} from './step-plan.js';
import { demandsOf, StepRows } from './step-rows.js';
import { WindowBlocks, type WindowLimits } from './window-blocks.js';

export interface SchedulerOptions {
  /** Slots of the executor: the most sequences that run at once. */
  readonly maxSequences: number;
  /** The most rows of one step, shared by prompts and generation. */
  readonly maxStepTokens: number;
  /** KV blocks of the executor, the null block included. */
  readonly kvBlocks: number;
  /** Blocks of layers with a window; absent where there are none. */
  readonly windowed?: WindowLimits | undefined;
  /** Sequences are computed in one step as a whole, return the hidden states of their positions, and sample nothing. */
  readonly isEncoder?: boolean;
  /** Slots have states: a sequence goes on where its last slice ended, or from its start. */
  readonly isRecurrent?: boolean;
  /** The most draft tokens of a slice of a sequence with states; default none. Others may have any number. */
  readonly draftTokens?: number;
  /** The executor has loaded a prediction block. */
  readonly predicts?: boolean;
  /** Number of snapshots of such states in the executor; default none. */
  readonly snapshots?: number;
  /** For tests, whose prompts are short: where they are taken. */
  readonly snapshotRule?: SnapshotRule;
  /** Look for prompts' beginnings among blocks that were computed before; default true. */
  readonly prefixCache?: boolean;
}

/** Share of all blocks that stays free for running sequences when new ones are admitted. */
const WATERMARK = 0.01;

/**
 * Decides what each step computes. Pure: no clock, no I/O, no promises. Sequences and results go in, plans come out.
 *
 * Each sequence catches up with its length; all share one budget of batched tokens per step, running sequences first. A
 * sequence's blocks and slot are released when the last step that names it has returned, never earlier: steps in flight
 * still write to them.
 */
export class Scheduler {
  readonly blocks: BlockManager;
  readonly windows: WindowBlocks;
  readonly snapshots: StateSnapshots;
  readonly checksums: BlockChecksums;
  readonly openBlocks: OpenBlocks;
  readonly saving: BlockSaving;
  readonly restores: BlockRestores;
  /** The last step brought blocks back. */
  private restoredLast = false;
  /** Sequences that may be in the next step; see {@link Blame}. */
  mayRun: (sequence: Sequence) => boolean = () => true;
  readonly counters = newSchedulerCounters();
  /** Waiting sequences, and slots by peer. */
  readonly queue = new PeerQueue();
  private running: Sequence[] = [];
  private readonly ending = new Set<Sequence>();
  private readonly slots: Slots;
  private inFlight: StepPlan[] = [];
  private readonly cache: PrefixCache;
  private steps = 0;
  private readonly drafts = new DraftPolicy(() => ({
    running: this.running.length,
    predicting: this.predictingCount,
    spareLogits: this.spareLogits(0),
    coming: Math.min(this.queue.size, this.slots.freeCount),
  }));

  constructor(private readonly options: SchedulerOptions) {
    this.blocks = new BlockManager(options.kvBlocks);
    this.windows = new WindowBlocks(options.windowed, options.maxStepTokens);
    const { isRecurrent = false, isEncoder = false, prefixCache = true, snapshots = 0, snapshotRule } = options;
    // Blocks have no recurrent state: without snapshots no sequence could resume after a cached prefix. Encoders cache nothing.
    const isCached = prefixCache && !isEncoder && (!isRecurrent || snapshots > 0);
    this.snapshots = new StateSnapshots(isCached && isRecurrent ? snapshots : 0, snapshotRule);
    this.cache = new PrefixCache(this.blocks, this.windows, isRecurrent ? this.snapshots : undefined, isCached);
    const { blocks, windows } = this;
    const pools = { blocks, windowBlocks: windows.pool, snapshots: this.snapshots.pool };
    this.openBlocks = new OpenBlocks(blocks, windows);
    this.checksums = new BlockChecksums(pools, this.openBlocks);
    this.saving = new BlockSaving(pools);
    this.restores = new BlockRestores(pools);
    this.slots = new Slots(options.maxSequences);
  }

  get waitingCount(): number {
    return this.queue.size;
  }

  /** Tokens of prompts that wait. */
  get waitingTokens(): number {
    return this.queue.tokens;
  }

  get runningCount(): number {
    return this.running.length;
  }

  /** Running sequences that the prediction block computes, too. */
  private get predictingCount(): number {
    return this.running.reduce((count, sequence) => count + Number(sequence.isPredicting), 0);
  }

  /** True if the next step may have such sequences: it must be the only one under way. */
  get mayPredict(): boolean {
    if (!this.options.predicts) return false;
    const begins = this.queue.size > 0 && this.slots.freeCount > 0;
    return this.predictingCount > 0 || (begins && this.drafts.predictsNext);
  }

  /** Planned steps whose results have not arrived. */
  get stepsInFlight(): number {
    return this.inFlight.length;
  }

  /** The step whose result comes next. */
  get oldestStep(): StepPlan | undefined {
    return this.inFlight[0];
  }

  /** True if the scheduler was made for an executor with the same limits. */
  isFor(limits: SchedulerOptions): boolean {
    const { maxSequences, maxStepTokens, kvBlocks, windowed, isRecurrent, snapshots, draftTokens, predicts } = limits;
    const { options } = this;
    return (
      limits.isEncoder === options.isEncoder &&
      draftTokens === options.draftTokens &&
      predicts === options.predicts &&
      maxSequences === options.maxSequences &&
      maxStepTokens === options.maxStepTokens &&
      kvBlocks === options.kvBlocks &&
      isRecurrent === options.isRecurrent &&
      snapshots === options.snapshots &&
      windowed?.window === options.windowed?.window &&
      windowed?.blocks === options.windowed?.blocks
    );
  }

  /** All sequences, highest-priority first, for another scheduler to run. Nothing may be under way; see {@link reset}. */
  takeOut(): readonly Sequence[] {
    return this.queue.takeAll();
  }

  /** The slices of all steps under way, in order. */
  get slicesInFlight(): readonly PlannedSlice[] {
    return this.inFlight.flatMap((plan) => plan.slices);
  }

  /** True if a sequence of this many tokens in all could ever run. */
  canEverRun(tokens: number): boolean {
    if (this.options.isEncoder && tokens > this.options.maxStepTokens) return false;
    return blocksFor(tokens) <= this.blocks.capacity && this.windows.neededOf(tokens) <= this.windows.capacity;
  }

  add(sequence: Sequence): void {
    sequence.worth = this.drafts.worth;
    this.queue.add(sequence);
  }

  get freeSlots(): number {
    return this.slots.freeCount;
  }

  get slotCount(): number {
    return this.options.maxSequences;
  }

  /** Gives a sequence that waits to another scheduler. */
  withdraw(sequence: Sequence): void {
    this.queue.remove(sequence);
    sequence.waitsFor = undefined;
  }

  /** Tokens of a prompt that need not be computed here: their blocks are findable. */
  findable(sequence: Sequence): number {
    return this.cache.find(sequence).blocks.length * BLOCK_TOKENS;
  }

  /** The sequence wants no more tokens: it stopped, was cancelled or ran out of time. */
  end(sequence: Sequence): void {
    if (sequence.state === 'ended') return;
    const wasWaiting = sequence.state === 'waiting';
    sequence.state = 'ended';
    if (wasWaiting) {
      this.queue.remove(sequence);
      return;
    }
    this.stopRunning(sequence);
    if (sequence.inFlight === 0) this.release(sequence);
    else this.ending.add(sequence);
  }

  /** The next step, or nothing to do. The caller sends it; results come back in the order of plans. */
  plan(): StepPlan | undefined {
    if (this.checksums.isComparing) return this.planChecksums(this.checksums.nextComparison());
    // Those that wait for nothing have every other step meanwhile.
    if (this.restores.isAwaited && !this.restoredLast) return this.planChecksums(this.restores.next());
    this.restoredLast = false;
    const opens: PlannedOpen[] = [];
    const appends: PlannedAppend[] = [];
    const slices: PlannedSlice[] = [];
    const rows = new StepRows(this.options.maxStepTokens, (priority) => this.demandsAt(priority));
    let pressed = false;
    this.makeSlot();
    this.askAhead();
    // Draft tokens and prompts that return something of each position would take all rows of logits of every step.
    const kept = Number(this.mayAdmit);
    let extraLogits = kept;
    const add = (sequence: Sequence, count: number, draftTokens?: readonly DraftToken[]): void => {
      const slice = this.slice(sequence, count, draftTokens);
      slices.push(slice);
      rows.take(sequence, count);
      const takesRows = slice.promptLogprobs || slice.pooling === 'none' || draftTokens !== undefined;
      if (takesRows && !this.options.isEncoder) extraLogits += count - 1;
    };

    for (const sequence of [...this.running]) {
      if (sequence.state !== 'running' || !this.mayRun(sequence)) continue;
      const budget = rows.leftFor(sequence);
      // The sequence's own token takes a row, too.
      const draftTokens =
        budget > 0 ? this.draftsOf(sequence, Math.min(budget - 1, this.spareLogits(extraLogits))) : undefined;
      if (draftTokens === 'coming') continue;
      const count = draftTokens ? 1 + draftTokens.length : this.countOf(sequence, budget, extraLogits);
      if (count === 0) continue;
      const end = sequence.scheduled + count;
      const needed = Math.max(0, blocksFor(end) - sequence.blocks.length);
      const windowed = this.windows.lacking(sequence, end);
      if (needed > 0 || windowed > 0) {
        if (!this.makeRoom(needed, windowed, sequence)) {
          pressed = true;
          continue;
        }
        const blocks = this.blocks.allocate(needed);
        sequence.blocks.push(...blocks);
        appends.push({ slot: sequence.slot as number, blocks, windowBlocks: this.windows.extend(sequence, windowed) });
      }
      add(sequence, count, draftTokens);
    }

    extraLogits -= kept;
    // Blocks of sequences that are being preempted become free for a running one: admitting others now would take them.
    pressed ||= this.isPreempting;
    while (!pressed && rows.left > 0 && this.slots.freeCount > 0 && this.spareLogits(extraLogits) > 0) {
      const budgetOf = (candidate: Sequence) => this.firstBudget(candidate, rows, slices.length === 0);
      const sequence = this.nextOf((candidate) => this.mayStart(candidate) && budgetOf(candidate) > 0);
      if (sequence === undefined) break;
      const found = this.cache.find(sequence);
      if (this.waitsForPrefix(sequence, found)) continue;
      const budget = budgetOf(sequence);
      if (!this.admit(sequence, budget, found)) {
        // A stream that is not read gives up its blocks, too; if it had no step under way, they are here already.
        if (this.yieldSlot(idleFor(sequence, this.running)) && !this.isPreempting) continue;
        break;
      }
      sequence.beginPrediction(this.inFlight.length === 0, () => this.drafts.beginPrediction());
      const { slot, blocks, windowStart, windowBlocks } = sequence;
      opens.push({
        sequence,
        slot: slot as number,
        blocks: blocks.slice(),
        windowStart,
        windowBlocks: windowBlocks.slice(),
      });
      add(sequence, this.countOf(sequence, budget, extraLogits));
    }

    if (slices.length === 0) {
      const isIdle = this.inFlight.every((plan) => plan.slices.length === 0);
      return this.planChecksums(this.saving.next() ?? (isIdle ? this.restores.next() : undefined));
    }
    const stepId = ++this.steps;
    const checksums = this.checksums.take(this.openBlocks.of(slices, stepId));
    const plan: StepPlan = { stepId, closes: this.slots.takeCloses(), opens, appends, slices, checksums };
    this.inFlight.push(plan);
    this.counters.steps += 1;
    this.counters.slices += slices.length;
    return plan;
  }

  /**
   * The oldest step under way has returned.
   *
   * @param tokens the sampled token of each slice with `sample`, in order; undefined where its mask was late
   * @param predicted of each of them what the prediction block expects behind it
   * @param times what the step took
   * @param checksums of the blocks for which it asked
   * @param isCopied whether it has copied them, if it was to
   * @param openChecksums of the first rows of blocks for which it asked
   * @returns what the step computed, and the tokens that somebody still wants; they are emitted already
   */
  complete(
    tokens: readonly (number | undefined)[],
    predicted: readonly (readonly number[])[] = [],
    times?: StepTimes,
    checksums?: Uint8Array,
    isCopied = true,
    openChecksums?: Uint8Array,
  ): StepResult {
    const plan = this.inFlight.shift();
    if (plan === undefined) throw new Error('a result came for no step');
    const { slices } = plan;
    if (plan.checksums !== undefined && checksums !== undefined) {
      const { checksums: planned } = plan;
      let damaged: number;
      if (planned.saveAt !== undefined) damaged = this.saving.returned(planned, checksums, isCopied);
      else if (planned.restoreAt === undefined) damaged = this.checksums.returned(planned, checksums);
      else {
        damaged = this.restores.returned(planned, checksums);
        this.counters.restoredBlocks += blocksOf(planned) - damaged;
      }
      this.counters.damagedBlocks += damaged;
    }
    if (times !== undefined && slices.length > 0) this.openBlocks.observe(times.elapsedUs ?? times.stepUs);
    if (times !== undefined && slices.length > 0 && slices.every((slice) => slice.count === outputsOf(slice))) {
      const rows = slices.reduce((sum, { count }) => sum + count, 0);
      const predicted = slices.flatMap(({ predictedTokens = 0 }) => (predictedTokens > 0 ? [predictedTokens] : []));
      this.drafts.observe(rows, predicted, times);
    }
    const wanted: StepToken[] = [];
    let index = 0;
    for (const slice of plan.slices) {
      const { sequence } = slice;
      const sampled = tokens.slice(index, index + outputsOf(slice));
      sequence.inFlight -= 1;
      if (slice.sample) sequence.pending -= 1;
      const right = this.advance(slice, sampled);
      for (let i = 0; i < right; i++) {
        if (sequence.state === 'ended') this.counters.discardedTokens += 1;
        else {
          sequence.emitted.push(sampled[i] as number);
          wanted.push({ sequence, index: index + i });
        }
      }
      if (right > 0 && sequence.state !== 'ended') sequence.expect(predicted[index + right - 1] ?? []);
      index += sampled.length;
      sequence.retryMissed();
      if (sequence.state === 'running' || sequence.state === 'preempting') {
        this.cache.register(sequence);
        this.windows.leave(sequence);
      } else if (slice.toSnapshot !== undefined && sequence.computed <= sequence.known) {
        // The last block of an answer: the next turn goes on from it.
        this.cache.register(sequence);
      }
      // One that is late comes again, from where it went on.
      if (!isLate(sampled)) this.cache.returned(slice);
      if (sequence.inFlight === 0 && sequence.state === 'preempting') this.requeue(sequence);
      if (sequence.inFlight === 0 && sequence.state === 'ended' && this.ending.delete(sequence)) this.release(sequence);
    }
    if (plan.checksums !== undefined && openChecksums !== undefined)
      this.counters.damagedBlocks += this.checksums.openReturned(plan.checksums, openChecksums);
    return { slices: plan.slices, tokens: wanted };
  }

  /** A slice has returned. @returns how many of its tokens are the sequence's */
  private advance(
    { sequence, position, count, tokens, proposed = 0, draftMethod }: PlannedSlice,
    sampled: readonly (number | undefined)[],
  ): number {
    if (isLate(sampled)) {
      // Its states are those before the slice.
      sequence.missed(this.options.isRecurrent ? position : position + count - 1);
      this.counters.maskMisses += 1;
      return 0;
    }
    sequence.resendsLastToken = sampled.length > 1;
    if (tokens === undefined || sampled.length === 1) {
      sequence.computed = position + count;
      return sampled.length;
    }
    // A token counts as long as what was drafted before it is what was sampled there.
    let right = 1;
    while (right < sampled.length && tokens[right] === sampled[right - 1]) right += 1;
    sequence.computed = position + right;
    sequence.scheduled = position + right;
    sequence.learn(right - 1, sampled.length - 1, proposed, draftMethod);
    this.drafts.learn(draftMethod, Math.min(proposed, right - 1), proposed);
    if (draftMethod === 'mtp') {
      this.counters.predictedTokens += proposed;
      this.counters.acceptedPredictedTokens += Math.min(proposed, right - 1);
    }
    this.counters.drafts += 1;
    this.counters.draftTokens += sampled.length - 1;
    this.counters.acceptedDraftTokens += right - 1;
    return right;
  }

  /**
   * The executor is lost: every sequence waits again, oldest first. What returned steps have computed stays findable, in case the
   * next executor has the same memory: steps under way write only behind it, and to blocks and snapshots that nothing finds.
   */
  suspend(): void {
    this.inFlight = [];
    this.checksums.abandon();
    this.saving.abandon();
    this.restores.abandon();
    this.cache.reset();
    for (const sequence of this.ending) this.release(sequence);
    this.ending.clear();
    for (const sequence of this.running.splice(0)) {
      sequence.lostTokens = sequence.computed;
      this.cache.keepTail(sequence);
      this.openBlocks.lose(sequence);
      this.release(sequence);
      sequence.forgetDevice();
      sequence.state = 'waiting';
      this.queue.add(sequence);
    }
    this.slots.reset();
  }

  /** The next executor has other memory: nothing that was computed before can be found. Follows {@link suspend}. */
  forgetContents(): void {
    this.blocks.reset();
    this.windows.reset();
    this.snapshots.reset();
    this.checksums.reset();
  }

  /** As {@link forgetContents}, but for what the host's memory has copies of. */
  restoreContents(saved: SavedContents): void {
    this.forgetContents();
    this.restores.begin(saved.bytes, this.saving.restore(saved));
  }

  /**
   * The next executor has the same memory: what was computed before can be found, after a fault that may have damaged it only where
   * checksums agree. Follows {@link suspend}.
   */
  keepContents(bytes: BlockBytes): void {
    this.checksums.begin(bytes);
  }

  /** Throws when a block or slot has not exactly one fate. */
  check(): void {
    const holders = [...this.running, ...this.ending];
    this.blocks.check(holders.map((sequence) => sequence.blocks));
    this.windows.check(holders);
    this.snapshots.check(holders);
    this.slots.check(holders.map((sequence) => sequence.slot));
    this.queue.check(holders);
  }

  /** A step that compares checksums or copies blocks, and nothing else: what a sequence can begin with is known when all have returned. */
  private planChecksums(checksums: PlannedChecksums | undefined): StepPlan | undefined {
    if (checksums === undefined) return undefined;
    const plan: StepPlan = { stepId: ++this.steps, closes: [], opens: [], appends: [], slices: [], checksums };
    this.inFlight.push(plan);
    this.restoredLast = checksums.restoreAt !== undefined;
    return plan;
  }

  /** Blocks that a sequence would begin with. */
  private takenBy(sequence: Sequence): Readonly<Record<BlockKind, readonly number[]>> {
    const { blocks, windowed, prefix, tail } = this.cache.find(sequence);
    const state = this.snapshots.pool.noted(prefix);
    return {
      blocks: tail ? [...blocks, tail.block] : blocks,
      windowBlocks: tail?.windowBlock === undefined ? windowed.blocks : [...windowed.blocks, tail.windowBlock],
      snapshots: state === undefined ? [] : [state],
    };
  }

  /** A completion waits for the first of its request to have computed their prompt, and then finds its blocks. */
  private mayStart(sequence: Sequence): boolean {
    const { leader } = sequence.options;
    if (sequence.paused || !this.mayRun(sequence)) return false;
    if (this.restores.holdsUp(sequence, () => this.takenBy(sequence))) return false;
    const { waitsFor } = sequence;
    if (waitsFor !== undefined && isPending(waitsFor) && this.mayRun(waitsFor.producer)) return false;
    if (leader === undefined || leader.state === 'ended' || !this.cache.findsPrompt(sequence)) return true;
    return leader.computed >= leader.options.promptIds.length;
  }

  /** Sequences whose constraints are still translated begin only where no other wants to: they hold slots and compute nothing for long. */
  private nextOf(mayStart: (candidate: Sequence) => boolean): Sequence | undefined {
    return this.queue.next((candidate) => !candidate.isOpening && mayStart(candidate)) ?? this.queue.next(mayStart);
  }

  /** True if a waiting sequence can have a slot. */
  private get mayAdmit(): boolean {
    if (this.slots.freeCount === 0 || this.queue.size === 0) return false;
    return this.queue.next((candidate) => this.mayStart(candidate)) !== undefined;
  }

  /** Rows of logits that are left when each running sequence has one: the executor has as many as it has slots. */
  private spareLogits(extraLogits: number): number {
    return this.options.maxSequences - this.running.length - extraLogits;
  }

  /**
   * Rows of a step that a sequence may begin with. Those of an encoder are all that it has: it begins where they fit its peer's share,
   * or in a step of its own, so that none waits for ever.
   */
  private firstBudget(sequence: Sequence, rows: StepRows, isFirst: boolean): number {
    const left = rows.leftFor(sequence);
    if (!this.options.isEncoder || sequence.known <= left) return left;
    return isFirst && sequence.known <= rows.left ? sequence.known : 0;
  }

  /** Number of tokens that a sequence advances in a step. */
  private countOf(sequence: Sequence, budget: number, extraLogits: number): number {
    const { scheduled } = sequence;
    const most = Math.min(sequence.behind, budget);
    // Each position of such a prompt takes a row of what is returned, the first of them the sequence's own.
    const isReturned = (sequence.wantsPromptLogprobs || sequence.pooling === 'none') && !this.options.isEncoder;
    const count = isReturned ? Math.min(most, 1 + this.spareLogits(extraLogits)) : most;
    return count > 0 ? this.snapshots.cut(sequence, scheduled + count) - scheduled : 0;
  }

  /**
   * Draft tokens at what follows the last token, in a slice that says its tokens itself; undefined where it does not. While they are
   * `coming` the sequence has no slice at all: what they follow is waited for.
   */
  private draftsOf(sequence: Sequence, most: number): readonly DraftToken[] | 'coming' | undefined {
    if (sequence.behind !== 1 || (sequence.drafter === undefined && !sequence.resendsLastToken)) return undefined;
    const draftTokens = sequence.draftTokens(Math.min(most, this.mostDraftTokens(sequence)));
    if (draftTokens === 'coming') return draftTokens;
    return draftTokens.length > 0 || (sequence.resendsLastToken && sequence.pending === 0) ? draftTokens : undefined;
  }

  private mostDraftTokens(sequence: Sequence): number {
    const { isRecurrent = false, draftTokens = 0 } = this.options;
    return isRecurrent ? Math.min(draftTokens, this.snapshots.mostDraftTokens(sequence)) : Number.POSITIVE_INFINITY;
  }

  private slice(sequence: Sequence, count: number, draftTokens?: readonly DraftToken[]): PlannedSlice {
    const position = sequence.scheduled;
    const promptLogprobs = sequence.wantsPromptLogprobs;
    const isLast = draftTokens !== undefined || position + count === sequence.length;
    const sample = isLast && !this.options.isEncoder;
    const pooling = sequence.pooling === 'last' && !isLast ? undefined : sequence.pooling;
    const mask = sample ? sequence.mask : undefined;
    const hasDrafts = draftTokens !== undefined && draftTokens.length > 0;
    const { fromSnapshot, toSnapshot } = hasDrafts
      ? this.snapshots.takeBefore(sequence)
      : this.snapshots.take(sequence, position + count);
    const tokens = draftTokens && [sequence.token(sequence.known - 1), ...draftTokens.map(({ tokenId }) => tokenId)];
    sequence.scheduled += count;
    sequence.inFlight += 1;
    if (sample) sequence.pending += 1;
    const slot = sequence.slot as number;
    const proposed = hasDrafts ? 1 + draftTokens.findLastIndex(({ isSure }) => !isSure) : undefined;
    const draftMethod = hasDrafts ? sequence.draftMethod : undefined;
    const isPredicted = this.options.predicts === true && sequence.isPredicting;
    const predictedTokens = isPredicted ? (sample ? sequence.predictedTokens : 0) : undefined;
    const draftTokenMasks =
      hasDrafts && mask !== undefined ? ([mask, ...draftTokens.map((draft) => draft.mask)] as TokenMask[]) : undefined;
    // One literal of one shape: there is a slice for each token, and spreads cost more than planning it.
    return {
      sequence,
      slot,
      position,
      count,
      sample,
      promptLogprobs,
      pooling,
      tokens,
      mask: hasDrafts ? undefined : mask,
      proposed,
      draftMethod,
      predictedTokens,
      draftTokenMasks,
      fromSnapshot,
      toSnapshot,
    };
  }

  /** True if another sequence computes what this one needs now; see {@link mayStart}. */
  private waitsForPrefix(sequence: Sequence, found: FoundPrefix): boolean {
    sequence.waitsFor = this.cache.waitsFor(sequence, found);
    return sequence.waitsFor !== undefined && this.mayRun(sequence.waitsFor.producer);
  }

  /** Gives a waiting sequence a slot and the blocks of its first slice, as many as possible from the prefix cache. */
  private admit(sequence: Sequence, budget: number, found: FoundPrefix): boolean {
    const { tail } = found;
    const start = tail?.end ?? found.blocks.length * BLOCK_TOKENS;
    const first = start + Math.min(sequence.known - start, budget);
    const end = isProtected(sequence) ? sequence.lastPosition : first;
    const foundBlocks = tail === undefined ? found.blocks : [...found.blocks, tail.block];
    const needed = blocksFor(end) - foundBlocks.length;
    const fromFree = needed + foundBlocks.filter((block) => this.blocks.isFree(block)).length;
    const watermark = this.running.length === 0 ? 0 : WATERMARK;
    const spare = Math.ceil(this.blocks.capacity * watermark);
    if (!this.blocks.canAllocate(fromFree + spare)) return false;
    const windowed =
      tail?.windowBlock === undefined
        ? found.windowed
        : this.windows.withTail(found.windowed, tail.windowBlock, tail.end);
    if (!this.windows.canAdmit(sequence, first, windowed, this.running, watermark)) return false;

    for (const block of found.blocks) this.blocks.share(block);
    this.windows.share(sequence, windowed);
    if (tail !== undefined) this.cache.takeTail(tail);
    sequence.blocks = [...foundBlocks, ...this.blocks.allocate(needed)];
    this.windows.extend(sequence, this.windows.lacking(sequence, first));
    this.cache.begin(sequence, found);
    sequence.slot = this.slots.take();
    sequence.computed = start;
    sequence.scheduled = start;
    sequence.opened = sequence.known;
    sequence.registeredBlocks = found.blocks.length;
    sequence.registeredPrefix = found.prefix;
    sequence.state = 'running';
    this.counters.recomputedTokens += Math.max(0, sequence.lostTokens - start);
    this.counters.keptTokens += Math.min(sequence.lostTokens, start);
    sequence.lostTokens = 0;
    sequence.summedTokens = 0;
    if (sequence.preemptions === 0 && sequence.emitted.length === 0) {
      sequence.cachedTokens = start;
      this.counters.cachedTokens += start;
    }
    // One all of whose positions return something may take a step a token: no request should wait for that.
    if (!sequence.wantsPromptLogprobs && sequence.pooling !== 'none') this.cache.promise(sequence, found);
    this.queue.remove(sequence);
    this.queue.took(sequence);
    this.running.push(sequence);
    this.running.sort(byPriority);
    return true;
  }

  /** Rows that each peer could use of a step, for its sequences of one priority. */
  private demandsAt(priority: number): Iterable<number> {
    if (this.queue.peerCount < 2) return [];
    const running = this.running.filter((sequence) => sequence.state === 'running' && this.mayRun(sequence));
    const waiting = this.slots.freeCount > 0 ? this.queue.firsts((candidate) => this.mayStart(candidate)) : [];
    return demandsOf(priority, running, waiting);
  }

  /** Preempts until so many blocks of each kind are free. False: not yet, steps under way still hold some. */
  private makeRoom(blocks: number, windowed: number, forSequence: Sequence): boolean {
    const hasFull = () => this.blocks.canAllocate(blocks);
    while (!hasFull() || !this.windows.canAllocate(windowed, forSequence, this.running)) {
      if (this.isPreempting) return false;
      // When its own steps under way have returned, windowed blocks leave it: nobody else need give up any until then.
      if (forSequence.inFlight > 0 && hasFull()) return false;
      if (this.yieldSlot(idleFor(forSequence, this.running))) continue;
      const victim = victimFor(forSequence, this.running, (peer) => this.queue.slotsOf(peer));
      this.counters.preemptions += 1;
      victim.preemptions += 1;
      this.preempt(victim);
      if (victim === forSequence) return false;
    }
    return true;
  }

  /**
   * When all slots are taken and a sequence waits, another gives its slot up: one whose client does not read or whose constraint is
   * still translated, else one of a peer that holds too many. It does not count as preempted: it comes again in its turn, as often as is
   * fair.
   */
  private makeSlot(): void {
    // All of an encoder's sequences end with their steps.
    if (this.options.isEncoder) return;
    if (this.slots.freeCount > 0 || this.ending.size > 0 || this.queue.size === 0 || this.isPreempting) return;
    const next = this.queue.next((candidate) => !candidate.isOpening && this.mayStart(candidate));
    if (next === undefined) return;
    const victim =
      idleFor(next, this.running) ?? holderOfTooMany(next, this.running, (peer) => this.queue.slotsOf(peer));
    if (victim !== undefined && !this.waitsForPrefix(next, this.cache.find(next))) this.yieldSlot(victim);
  }

  /** The next waiting sequence requests a snapshot before the producer of their shared prefix is past it. */
  private askAhead(): void {
    if (this.snapshots.count === 0 || this.queue.size === 0) return;
    const next = this.queue.next((candidate) => this.mayStart(candidate));
    if (next !== undefined) this.waitsForPrefix(next, this.cache.find(next));
  }

  /** @returns whether there was one to give its slot up */
  private yieldSlot(sequence: Sequence | undefined): boolean {
    if (sequence === undefined) return false;
    this.counters.slotPreemptions += 1;
    this.preempt(sequence);
    return true;
  }

  /** True if a preempted sequence still holds its slot and blocks, because steps in flight use them. */
  private get isPreempting(): boolean {
    return this.running.some((sequence) => sequence.state === 'preempting');
  }

  /** The sequence gives up its slot and blocks once its last step in flight has returned, and waits again. */
  private preempt(sequence: Sequence): void {
    sequence.state = 'preempting';
    if (sequence.inFlight === 0) this.requeue(sequence);
  }

  private requeue(sequence: Sequence): void {
    this.stopRunning(sequence);
    this.release(sequence);
    sequence.forgetDevice();
    sequence.state = 'waiting';
    this.queue.add(sequence);
  }

  private release(sequence: Sequence): void {
    this.cache.forget(sequence);
    // The last first: blocks are taken oldest first, and a block is found through those before it alone.
    for (const block of sequence.blocks.toReversed()) {
      if (this.blocks.isNoted(block)) this.blocks.release(block);
      else this.blocks.discard(block);
    }
    sequence.blocks = [];
    this.windows.release(sequence);
    this.snapshots.release(sequence);
    this.slots.giveBack(sequence.slot as number);
    sequence.slot = undefined;
    this.queue.gaveBack(sequence);
  }

  private stopRunning(sequence: Sequence): void {
    const at = this.running.indexOf(sequence);
    if (at >= 0) this.running.splice(at, 1);
  }
}

/** True if a slice's mask had not come in time, or the token before it is missing. */
function isLate(sampled: readonly (number | undefined)[]): boolean {
  return sampled.length > 0 && sampled[0] === undefined;
}
