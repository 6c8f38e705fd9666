import { BLOCK_TOKENS } from '../../src/gateway/replica/scheduler/block-manager.js';
import { hasDraftTokens, type PlannedSlice, type StepPlan } from '../../src/gateway/replica/scheduler/step-plan.js';
import type { WindowLimits } from '../../src/gateway/replica/scheduler/window-blocks.js';
import { chain, damageBlocks } from './block-contents.js';
import { checksumsOf, type ModelledMemory, openChecksumsOf } from './modelled-checksums.js';
import type { Slot, State } from './modelled-slot.js';
import { blocksOf, SavedModel } from './saved-model.js';
import { WindowModel } from './window-model.js';

const EMPTY = 0x811c9dc5;

/** The token that follows a prefix, for any executor: what a plain run gives. */
export function tokenAfter(tokens: Iterable<number>, vocabulary: number): number {
  let state = EMPTY;
  for (const token of tokens) state = chain(state, token);
  return state % vocabulary;
}

/**
 * An executor that computes nothing and checks everything. Each KV position holds the chain of the tokens up to it, so a
 * block that was overwritten, shared wrongly or found by the wrong prefix is seen as soon as somebody attends to it.
 * Steps run in order, each a while after it was sent.
 */
export class ExecutorModel {
  private readonly slots = new Map<number, Slot>();
  private readonly kv: Uint32Array;
  private readonly queue: StepPlan[] = [];
  private readonly windows: WindowModel | undefined;
  /** By id. */
  private readonly snapshots = new Map<number, State>();
  /** Snapshots that the step has written, and that it has read. */
  private touched = { written: new Set<number>(), read: new Set<number>() };
  /** Positions of the KV cache that the step has written. */
  private readonly written = new Set<number>();
  private lastStep = 0;
  /** Slices that went on from a snapshot, and that wrote one. */
  readonly snapshotCounts = { read: 0, written: 0 };
  /** Positions that slices replayed, and snapshots that slices with draft tokens wrote. */
  readonly replays = { positions: 0, snapshots: 0 };
  /** Slices whose mask was not there yet, and those of them that were late for it. */
  readonly masks = { pending: 0, late: 0 };
  /** Rows of every step so far. */
  readonly rows: number[] = [];
  /** Memory of the host, which outlives the process. */
  readonly saved = new SavedModel();
  /** Checksums of the blocks that the step named which ran last. */
  checksums: Uint8Array = new Uint8Array(0);
  /** The same, of the first rows of blocks. */
  openChecksums: Uint8Array = new Uint8Array(0);

  constructor(
    private readonly vocabulary: number,
    private readonly limits: {
      maxSequences: number;
      maxStepTokens: number;
      kvBlocks: number;
      windowed?: WindowLimits | undefined;
      isRecurrent?: boolean;
      draftTokens?: number;
      snapshots?: number;
    },
  ) {
    this.windows = limits.windowed && new WindowModel(limits.windowed);
    this.kv = new Uint32Array(limits.kvBlocks * BLOCK_TOKENS);
  }

  private get memory(): ModelledMemory {
    const { kv, windows, snapshots, saved } = this;
    return { kv, windows, snapshots, saved };
  }

  get stepsQueued(): number {
    return this.queue.length;
  }

  /** The frame arrives: slots change at once, as in the executor. */
  send(plan: StepPlan): void {
    if (plan.stepId <= this.lastStep) throw new Error(`step ${plan.stepId} after ${this.lastStep}`);
    this.lastStep = plan.stepId;
    this.windows?.send(plan);
    this.queue.push(plan);
  }

  /** Runs the oldest queued step. @returns the sampled tokens; undefined for those that were late */
  run(): (number | undefined)[] {
    const plan = this.queue.shift();
    if (plan === undefined) throw new Error('nothing is queued');
    this.checksums = checksumsOf(plan, this.memory);
    for (const slot of plan.closes) if (!this.slots.delete(slot)) throw new Error(`slot ${slot} is closed twice`);
    for (const { slot, sequence, blocks } of plan.opens) {
      if (this.slots.has(slot)) throw new Error(`slot ${slot} is opened twice`);
      if (slot >= this.limits.maxSequences) throw new Error(`slot ${slot} does not exist`);
      this.slots.set(slot, {
        sequence,
        known: sequence.tokens(),
        blocks: [...blocks],
        lastToken: -1,
        missing: undefined,
        states: [],
        replay: undefined,
      });
    }
    for (const { slot, blocks } of plan.appends) this.get(slot).blocks.push(...blocks);
    const tokens: (number | undefined)[] = [];
    this.touched = { written: new Set(), read: new Set() };
    let rows = 0;
    let logits = 0;
    const seen = new Set<number>();
    for (const slice of plan.slices) {
      const { slot: index, sequence, position, count, sample, promptLogprobs, tokens: said } = slice;
      const slot = this.get(index);
      if (this.isVoid(slot, slice)) {
        tokens.push(undefined);
        rows += count;
        continue;
      }
      if (slot.sequence !== sequence) throw new Error(`slot ${index} belongs to another sequence`);
      if (seen.has(index)) throw new Error(`two slices of slot ${index}`);
      seen.add(index);
      if (this.limits.isRecurrent && (said?.length ?? 0) > 1 + (this.limits.draftTokens ?? 0))
        throw new Error('states cannot take back so many draft tokens');
      const source = this.limits.isRecurrent ? this.stateBefore(slot, slice) : undefined;
      rows += count;
      logits += promptLogprobs || said !== undefined ? count : Number(sample);
      if (said !== undefined && said.length !== count) throw new Error(`${said.length} tokens at ${count} positions`);
      let state = position === 0 ? EMPTY : this.read(slot, position - 1);
      const content = this.chainsOf(slot, position);
      if (position > 0 && state !== content.at(-1)) throw new Error('the context is not this sequence’s');
      for (let p = position; p < position + count; p++) {
        const token = said === undefined ? (slot.known[p] ?? slot.lastToken) : (said[p - position] as number);
        if (token < 0) throw new Error('a slot that sampled nothing is to go on');
        state = chain(state, token);
        this.write(slot, index, p, state);
        content.push(state);
        if (said !== undefined) tokens.push(state % this.vocabulary);
      }
      if (this.limits.isRecurrent) this.writeState(slot, slice, source, content);
      this.windows?.run(index, content);
      // Which of several was the last is not the slot's to know.
      if (said !== undefined) slot.lastToken = said.length > 1 ? -1 : state % this.vocabulary;
      // A token of a slice that states its own is sampled already, unless its mask is late.
      if (!sample || (said !== undefined && (said.length > 1 || slice.mask !== 'pending'))) continue;
      if (said !== undefined) tokens.pop();
      if (this.isLate(slice)) {
        slot.missing = position + count;
        tokens.push(undefined);
        continue;
      }
      slot.lastToken = state % this.vocabulary;
      tokens.push(slot.lastToken);
    }
    this.windows?.ran();
    if (rows > this.limits.maxStepTokens) throw new Error(`${rows} rows in a step`);
    if (logits > this.limits.maxSequences) throw new Error(`${logits} rows of logits`);
    if (plan.slices.length > 0) this.rows.push(rows);
    this.openChecksums = openChecksumsOf(plan, this.memory);
    return tokens;
  }

  /** Something writes to a block, from a row on. */
  scribble(block: number, row: number, kind: 'blocks' | 'windowBlocks' = 'blocks'): void {
    const memory = kind === 'blocks' ? blocksOf(this.kv) : (this.windows as WindowModel).contents;
    memory.set(block, (memory.get(block) as Uint32Array).fill(0xdead, row));
  }

  /** A fault writes to some blocks and snapshots: a wrong number, or what another block holds. @param start decides which */
  damage(start: number): void {
    const isHit = (kind: number, index: number) => chain(chain(start, kind), index) % 5 === 0;
    damageBlocks(this.kv, (block) => isHit(1, block));
    this.windows?.damage((block) => isHit(2, block));
    for (const [id, state] of this.snapshots)
      if (isHit(3, id)) this.snapshots.set(id, { ...state, content: state.content ^ 1 });
  }

  /** The process dies, and its memory with it. */
  crash(): void {
    this.kill(0, false);
    this.snapshots.clear();
    this.windows?.crash();
    this.kv.fill(0xdead);
  }

  /**
   * The process is killed, and its memory stays.
   *
   * @param steps of those queued that it had still run, whose results are lost
   * @param isTorn whether all that the last of them wrote is rubbish
   */
  kill(steps: number, isTorn: boolean): void {
    for (let i = Math.min(steps, this.queue.length); i > 0; i--) {
      this.written.clear();
      this.run();
      if (i > 1 || !isTorn) continue;
      for (const place of this.written) this.kv[place] = 0xdead;
      for (const id of this.touched.written) this.snapshots.set(id, { position: -1, content: 0xdead, snapshot: id });
      this.windows?.tear();
    }
    this.slots.clear();
    this.windows?.kill();
    this.queue.length = 0;
  }

  /** Sent before it was known that the token it goes on from is missing: nothing comes of it. */
  private isVoid(slot: Slot, { position, count, sample }: PlannedSlice): boolean {
    const { missing } = slot;
    if (missing === undefined) return false;
    if (position === missing && count === 1) return true;
    if (position + count === missing && sample) slot.missing = undefined;
    else if (position + count >= missing)
      throw new Error(`a slice from ${position} passes the missing token ${missing}`);
    return false;
  }

  /** True for every third of the masks that are not there yet: it comes too late. */
  private isLate({ mask }: PlannedSlice): boolean {
    if (mask !== 'pending') return false;
    this.masks.pending += 1;
    if (this.masks.pending % 3 !== 0) return false;
    this.masks.late += 1;
    return true;
  }

  /** The state that a slice goes on from; what stands there must be what its own tokens amount to. */
  private stateBefore(slot: Slot, { position, fromSnapshot }: PlannedSlice): State | undefined {
    if (position === 0) {
      if (fromSnapshot !== undefined) throw new Error('a sequence begins from a snapshot');
      return undefined;
    }
    const named = fromSnapshot === undefined ? undefined : this.snapshots.get(fromSnapshot);
    if (fromSnapshot !== undefined && named === undefined) throw new Error(`nobody wrote snapshot ${fromSnapshot}`);
    const standing = slot.states.filter(
      (state) => state.snapshot === undefined || this.snapshots.get(state.snapshot) === state,
    );
    const state =
      named ?? standing.find((each) => each.position === position) ?? this.replayed(slot, position, standing);
    if (state === undefined || state.position !== position) {
      const known = standing.map((each) => each.position);
      throw new Error(`no state stands before position ${position}, but before ${named?.position ?? known}`);
    }
    if (state.content !== this.chainsOf(slot, position).at(-1)) throw new Error('the state is of other tokens');
    if (state.snapshot !== undefined) {
      if (this.touched.written.has(state.snapshot)) throw new Error('a snapshot is read in the step that writes it');
      this.touched.read.add(state.snapshot);
      this.snapshotCounts.read += 1;
    }
    return state;
  }

  /** The state after the positions of a slice with draft tokens that were accepted. */
  private replayed({ replay }: Slot, position: number, standing: readonly State[]): State | undefined {
    const before = standing.find((state) => state.position === replay?.position);
    const replayed = position - (replay?.position ?? position);
    if (replay === undefined || before === undefined || replayed < 1 || replayed > replay.contents.length)
      return undefined;
    this.replays.positions += replayed;
    // Those that follow were not accepted.
    replay.contents.length = replayed;
    const { snapshot } = before;
    return { position, content: replay.contents.at(-1) as number, base: before, ...(snapshot && { snapshot }) };
  }

  /** @param contents of the positions up to the slice's end */
  private writeState(slot: Slot, slice: PlannedSlice, source: State | undefined, contents: readonly number[]): void {
    const { position, count, toSnapshot } = slice;
    const hasDrafts = hasDraftTokens(slice);
    const end = hasDrafts ? position : position + count;
    let target: State = { position: end, content: contents[end - 1] as number };
    if (toSnapshot !== undefined) {
      if (toSnapshot < 1 || toSnapshot > (this.limits.snapshots ?? 0)) throw new Error(`there is no ${toSnapshot}`);
      if (this.touched.written.has(toSnapshot) || this.touched.read.has(toSnapshot))
        throw new Error(`snapshot ${toSnapshot} is written in a step that names it twice`);
      this.touched.written.add(toSnapshot);
      target = { ...target, snapshot: toSnapshot };
      this.snapshots.set(toSnapshot, target);
      this.snapshotCounts.written += 1;
      this.replays.snapshots += Number(hasDrafts);
    }
    if (hasDrafts) {
      slot.states = [target];
      slot.replay = { position, contents: contents.slice(position) };
      return;
    }
    // The slice may be sent again: from the state before what it replayed.
    const from = source?.base ?? source;
    slot.states = from === undefined ? [target] : [from, target];
  }

  private get(index: number): Slot {
    const slot = this.slots.get(index);
    if (slot === undefined) throw new Error(`slot ${index} is not open`);
    return slot;
  }

  /** The chains up to each of the sequence's own tokens before `position`, computed anew. */
  private chainsOf(slot: Slot, position: number): number[] {
    const chains: number[] = [];
    let state = EMPTY;
    for (let p = 0; p < position; p++) {
      state = chain(state, this.tokenAt(slot, p));
      chains.push(state);
    }
    return chains;
  }

  private tokenAt(slot: Slot, position: number): number {
    const { sequence } = slot;
    if (position < sequence.known) return sequence.token(position);
    // Sampled on the device in a step whose result has not come back.
    let state = EMPTY;
    for (let p = 0; p < sequence.known; p++) state = chain(state, sequence.token(p));
    for (let p = sequence.known; ; p++) {
      const token = state % this.vocabulary;
      if (p === position) return token;
      state = chain(state, token);
    }
  }

  private place(slot: Slot, position: number): number {
    const block = slot.blocks[Math.floor(position / BLOCK_TOKENS)];
    if (block === undefined || block <= 0 || block >= this.limits.kvBlocks)
      throw new Error(`position ${position} has no block`);
    return block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
  }

  private read(slot: Slot, position: number): number {
    return this.kv[this.place(slot, position)] as number;
  }

  /** Writing the content that is there already is harmless; changing what another open slot holds is not. */
  private write(slot: Slot, index: number, position: number, value: number): void {
    const place = this.place(slot, position);
    const block = Math.floor(place / BLOCK_TOKENS);
    if (this.kv[place] !== value) {
      for (const [other, { blocks }] of this.slots) {
        if (other !== index && blocks.includes(block))
          throw new Error(`block ${block} of slot ${other} is overwritten by slot ${index}`);
      }
    }
    this.kv[place] = value;
    this.written.add(place);
  }
}
