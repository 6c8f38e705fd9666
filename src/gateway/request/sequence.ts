import { NEUTRAL_SAMPLING, type SamplingValues } from '../../shared/sampling-schema.js';
import type { TokenConstraint, TokenMask } from '../matching/token-constraint.js';
import { type DraftWorth, PredictionLength } from './draft-length.js';
import type { Pooling } from './pooling.js';
import { type HeldSnapshot, type InFlightPrefix, NO_PREFIX, type OpenSums } from './prefix.js';
import { PromptLookupDrafter } from './prompt-lookup-drafter.js';

let arrivals = 0;

/** Sampling parameters of a sequence, as the executor's slot receives them. */
export interface SequenceSampling extends SamplingValues {
  /** Token id and what is added to its logit. */
  readonly logitBias: readonly (readonly [tokenId: number, bias: number])[];
  /** Tokens that would end the sequence, held down until `minTokens` are generated. */
  readonly suppressedIds: readonly number[];
}

/** Sampling that changes nothing: argmax of the raw logits. */
export const GREEDY: SequenceSampling = { ...NEUTRAL_SAMPLING, logitBias: [], suppressedIds: [] };

export interface SequenceOptions {
  readonly promptIds: Uint32Array;
  readonly sampling: SequenceSampling;
  /** The most tokens to generate; prompt and these together fit the context. */
  readonly maxTokens: number;
  /** Higher runs first. */
  readonly priority: number;
  /** Client of the sequence: slots and rows are shared among peers. Absent: all that name none are one. */
  readonly peer?: string;
  /** The first completion of the same request: it computes the prompt for all. */
  readonly leader?: Sequence;
  /** May draft token at its next tokens; default false. What is computed is the same. */
  readonly speculates?: boolean;
  /** Takes draft tokens of the model's prediction block, too; default false. */
  readonly predicts?: boolean;
  /** Constraint on its tokens. */
  readonly constraint?: TokenConstraint | undefined;
  /** May take what it finds in the prefix cache; default true. What it computes is left there in any case. */
  readonly takesPrefix?: boolean;
  /** Hidden states that are returned; default none. */
  readonly returns?: ReturnedStates | undefined;
}

/** Hidden states of the prompt that are returned. */
export interface ReturnedStates {
  readonly pooling: Pooling;
  /** Scores of the pooled state come in its place. */
  readonly isScored?: boolean;
}

/** Source of draft tokens: what came before in the text, or the model's prediction block. */
export type DraftMethod = 'lookup' | 'mtp';

/** A token that may follow; with a constraint also what may follow it then. */
export type DraftToken = { readonly tokenId: number; readonly mask?: TokenMask; readonly isSure?: boolean };

/**
 * `waiting` has no slot. `running` has one. `preempting` keeps its slot and blocks until its last step in flight has returned, then
 * waits again. `ended` will not run again; it too keeps its slot until its last step in flight has returned.
 */
export type SequenceState = 'waiting' | 'running' | 'preempting' | 'ended';

/**
 * One completion in the making: what is known of it, and how far the executor has come.
 *
 * Positions below `computed` have returned; those below `scheduled` are returned or under way. There is no prefill or
 * decode phase: a sequence is behind its `length` and catches up.
 */
export class Sequence {
  readonly emitted: number[] = [];
  state: SequenceState = 'waiting';
  slot: number | undefined;
  /** The block table. */
  blocks: number[] = [];
  /** That of layers with a window, from its entry `windowStart` on: those before it have left. */
  windowBlocks: number[] = [];
  windowStart = 0;
  /** Snapshots of its recurrent states. */
  snapshots: readonly HeldSnapshot[] = [];
  /** Before which position the last one of its prompt stands. */
  lastSnapshot = 0;
  /** Positions at which others want to go on from where it is then. */
  branches: readonly number[] = [];
  computed = 0;
  scheduled = 0;
  /** Samples under way: tokens that exist on the device and are not known here yet. */
  pending = 0;
  /** Steps under way that name this sequence. */
  inFlight = 0;
  /** Full blocks that are findable in the prefix cache. */
  registeredBlocks = 0;
  /** Number of the prefix up to the last registered block. */
  registeredPrefix = NO_PREFIX;
  /** Positions that were computed when its executor was lost, until it is admitted again. */
  lostTokens = 0;
  /** Those of them that checksums vouch for, in a block that was not full; see `OpenBlocks`. */
  summedTokens = 0;
  /** Checksums of what it has written to its last block, as far as they have come. */
  openSums: OpenSums | undefined;
  /** Prompt tokens that the first admission found in the prefix cache. */
  cachedTokens = 0;
  preemptions = 0;
  /** While it waits: blocks that another sequence computes and this one will find. */
  waitsFor: InFlightPrefix | undefined;
  /** Its reader does not keep up: nothing more is computed for now. */
  paused = false;
  /** Its mask had not come in time: nothing is computed for it until its steps have returned and the mask is there. */
  isLate = false;
  /** Order of arrival, whatever scheduler has it. */
  readonly arrival = ++arrivals;

  /** Tokens that the slot was opened with. */
  opened = 0;
  /** The slot does not know which token was sampled last: the next slice says so. */
  resendsLastToken = false;
  /** Absent where nothing is drafted. */
  readonly drafter: PromptLookupDrafter | undefined;
  /** Number of draft tokens of a method that pay, as the scheduler that has it measures. */
  worth: (method: DraftMethod, ...acceptance: Parameters<DraftWorth>) => number = () => Number.POSITIVE_INFINITY;
  /** Draft tokens so far, and those that were right. */
  drafted = 0;
  accepted = 0;
  /** Those of them that the prediction block has made. */
  predicted = 0;
  acceptedPredicted = 0;
  /** Tokens that the prediction block expects after the first `known` ones. */
  private expected: { readonly known: number; readonly tokens: readonly number[] } = { known: 0, tokens: [] };
  private readonly prediction: PredictionLength | undefined;
  private hasBegunPrediction = false;
  /** Nothing is computed for it until draft tokens that the lookup expects can be made. */
  private isHeld = false;

  constructor(readonly options: SequenceOptions) {
    const worthOf =
      (method: DraftMethod): DraftWorth =>
      (acceptance) =>
        this.worth(method, acceptance);
    if (options.speculates)
      this.drafter = new PromptLookupDrafter((position) => this.token(position), worthOf('lookup'));
    if (options.predicts) this.prediction = new PredictionLength(worthOf('mtp'));
  }

  /** Tokens that are known: prompt and emitted. */
  get known(): number {
    return this.options.promptIds.length + this.emitted.length;
  }

  /** Positions it may ever compute: all but that of the last token it may emit. */
  get lastPosition(): number {
    return this.options.promptIds.length + this.options.maxTokens - 1;
  }

  /** Tokens that exist, here or only on the device. */
  get length(): number {
    return this.known + this.pending;
  }

  /** True if every token it may emit exists: nothing is left to compute for it. */
  get complete(): boolean {
    return this.emitted.length + this.pending >= this.options.maxTokens;
  }

  /** Positions that could be computed now. */
  get behind(): number {
    return this.complete || this.paused || this.isLate ? 0 : Math.max(0, this.length - this.scheduled);
  }

  /** True if its next slice returns log probabilities of the prompt; a replay that comes after them does not. */
  get wantsPromptLogprobs(): boolean {
    return this.options.sampling.promptLogprobs > 0 && this.emitted.length === 0 && this.pending === 0;
  }

  /** Pooling of the prompt's hidden states, as long as some of it is to be computed; undefined: none is returned. */
  get pooling(): Pooling | undefined {
    return this.emitted.length === 0 && this.pending === 0 ? this.options.returns?.pooling : undefined;
  }

  /**
   * Draft tokens at the tokens that follow, as many as a step may have: `coming` where they depend on a token under way, or on a
   * mask. None before everything that the slot was opened with is computed, and none beyond where suppressed tokens are let go.
   */
  draftTokens(most: number): readonly DraftToken[] | 'coming' {
    const { drafter, known } = this;
    const { maxTokens, sampling, constraint } = this.options;
    const { length } = this.emitted;
    const alike = length < sampling.minTokens ? sampling.minTokens - length : Number.POSITIVE_INFINITY;
    const left = Math.min(most, maxTokens - length - 1, alike - 1);
    if (drafter === undefined || this.scheduled < this.opened || left <= 0) return [];
    if (this.pending > 0) {
      this.isHeld = drafter.draftTokens(known, left).length > 0;
      return this.isHeld || (constraint !== undefined && constraint.ahead.length > 1) ? 'coming' : [];
    }
    // Behind draft tokens nothing is under way: what the mask alone allows is worth the wait.
    if (constraint !== undefined && constraint.mask === undefined) {
      this.isHeld ||= drafter.draftTokens(known, left).length > 0;
      return this.isHeld || this.resendsLastToken || constraint.ahead.length > 0 ? 'coming' : [];
    }
    const draftTokens: readonly DraftToken[] =
      constraint === undefined ? this.proposals(left).map((tokenId) => ({ tokenId })) : constraint.ahead.slice(0, left);
    // It was held up for nothing, which costs as much as a wrong draft token.
    if (this.isHeld && draftTokens.every(({ isSure }) => isSure)) drafter.learn(0, 1);
    this.isHeld = false;
    return draftTokens;
  }

  /** Draft tokens for whoever works out masks ahead; none while the token that they follow is under way. */
  get draftIds(): readonly number[] {
    return this.pending > 0 ? [] : this.proposals(Number.POSITIVE_INFINITY);
  }

  /** Source of the draft tokens that come now, if they are not forced by a constraint. */
  get draftMethod(): DraftMethod {
    if (!this.isPredicting) return 'lookup';
    return (this.drafter?.draftTokens(this.known, 1).length ?? 0) > 0 ? 'lookup' : 'mtp';
  }

  /** The text itself is the surer source: where its last tokens occurred before, nothing else is drafted. */
  private proposals(most: number): readonly number[] {
    const found = this.drafter?.draftTokens(this.known, most) ?? [];
    const { known, tokens } = this.expected;
    if (found.length > 0 || known !== this.known || this.prediction === undefined) return found;
    return tokens.slice(0, Math.min(most, this.prediction.next()));
  }

  /** True if the prediction block computes its positions. */
  get isPredicting(): boolean {
    return this.prediction !== undefined && !this.prediction.isOver;
  }

  /**
   * It has a slot. From its first one on it takes draft tokens of the prediction block, or never.
   *
   * @param isAlone no other step is under way, see `predicted_tokens` of the executor's protocol
   * @param isAdmitted asked once
   */
  beginPrediction(isAlone: boolean, isAdmitted: () => boolean): void {
    if (!this.isPredicting) return;
    if (!isAlone || !(this.hasBegunPrediction || isAdmitted())) this.prediction?.end();
    this.hasBegunPrediction = true;
  }

  /** Tokens that the prediction block is to draft behind the next sampled token. */
  get predictedTokens(): number {
    return this.complete ? 0 : (this.prediction?.next() ?? 0);
  }

  /** The prediction block expects these tokens after the known ones. */
  expect(tokens: readonly number[]): void {
    this.expected = { known: this.known, tokens };
  }

  /** So many of the draft tokens of a slice were right; of these `proposed` the method made the first, the others were forced. */
  learn(right: number, of: number, proposed: number, method: DraftMethod = 'lookup'): void {
    this.drafted += of;
    this.accepted += right;
    if (proposed === 0) return;
    const rightly = Math.min(right, proposed);
    if (method === 'lookup') {
      this.drafter?.learn(rightly, proposed);
      return;
    }
    this.predicted += proposed;
    this.acceptedPredicted += rightly;
    this.prediction?.learn(rightly, proposed);
  }

  /** Mask of the token that would be sampled now; it may depend on one that is not known yet. */
  get mask(): TokenMask | 'pending' | undefined {
    const { constraint } = this.options;
    if (constraint === undefined) return undefined;
    return (this.pending === 0 ? constraint.mask : undefined) ?? 'pending';
  }

  /** True while its constraint is translated: it may still be refused, and none of its tokens can be sampled. */
  get isOpening(): boolean {
    return this.options.constraint?.isOpening ?? false;
  }

  /** Its mask had not come in time: the position that it was to be sampled at is computed again. */
  missed(position: number): void {
    if (!this.isLate) this.computed = position;
    this.isLate = true;
  }

  /** Goes on after {@link missed}, when nothing is under way that knew nothing of it, and the mask is there. */
  retryMissed(): void {
    if (!this.isLate || this.inFlight > 0 || this.options.constraint?.mask === undefined) return;
    this.isLate = false;
    this.scheduled = this.computed;
  }

  /** The token at a known position. */
  token(position: number): number {
    const { promptIds } = this.options;
    return (position < promptIds.length ? promptIds[position] : this.emitted[position - promptIds.length]) as number;
  }

  /** All known tokens. */
  tokens(): Uint32Array {
    const ids = new Uint32Array(this.known);
    ids.set(this.options.promptIds);
    ids.set(this.emitted, this.options.promptIds.length);
    return ids;
  }

  /** Forgets everything the executor held of it; what was emitted stays. */
  forgetDevice(): void {
    this.slot = undefined;
    this.blocks = [];
    this.windowBlocks = [];
    this.windowStart = 0;
    this.snapshots = [];
    this.lastSnapshot = 0;
    this.branches = [];
    this.computed = 0;
    this.scheduled = 0;
    this.pending = 0;
    this.inFlight = 0;
    this.isLate = false;
    this.resendsLastToken = false;
    this.isHeld = false;
    this.expected = { known: 0, tokens: [] };
    this.registeredBlocks = 0;
    this.registeredPrefix = NO_PREFIX;
    this.waitsFor = undefined;
    this.openSums = undefined;
  }
}
