import type {
  ExecuteRequest,
  LoadedModel,
  SliceMask,
  SlotMask,
  TokenMask as TokenMaskMessage,
} from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { TokenMask } from '../matching/token-constraint.js';
import type { Sequence } from '../request/sequence.js';
import { emptyFrame } from './link/step-encoding.js';
import type { StepPlan } from './scheduler/step-plan.js';

/** A mask that the executor has, and how many steps under way name it. */
interface KnownMask {
  readonly id: number;
  steps: number;
}

/** A step under way: the masks that it names, and who waits in it for one. */
interface MaskedStep {
  readonly stepId: bigint;
  readonly named: KnownMask[];
  readonly pending: Map<Sequence, number>;
}

/** Masks in a step's frame. */
export interface StepMasks {
  /** Those that the executor does not have. */
  readonly masks: TokenMaskMessage[];
  /** Mask of each slice. */
  readonly slices: readonly (SliceMask | undefined)[];
  /** Masks of each slice's draft tokens. */
  readonly draftTokens: readonly (readonly number[])[];
  /** Masks that the previous step waits for. */
  readonly before: SlotMask[];
}

const PENDING: SliceMask = { id: 0 };

/** The masks of one executor's epoch: which it has, under which ids, and which steps wait for one. */
export class Masking {
  /** The one named last at the end. */
  private readonly known = new Map<TokenMask, KnownMask>();
  private steps: MaskedStep[] = [];
  /** Masks that steps under way wait for, and masks that the executor must receive before anything else. */
  private outbox = { masks: [] as TokenMaskMessage[], slots: new Map<MaskedStep, SlotMask[]>() };

  constructor(
    private readonly model: Pick<LoadedModel, 'epoch' | 'maskIds' | 'vocabularySize'>,
    private readonly send: (frame: ExecuteRequest) => void,
  ) {}

  /** A step is about to be sent. */
  begin({ stepId, slices }: StepPlan): StepMasks {
    // It may name a mask that is still to be sent.
    const { masks, before } = this.takeBefore(BigInt(stepId) - 1n);
    const step: MaskedStep = { stepId: BigInt(stepId), named: [], pending: new Map() };
    const told = slices.map(({ sequence, slot, mask }): SliceMask | undefined => {
      if (mask === undefined) return undefined;
      if (mask !== 'pending') return { id: this.name(mask, step, masks) };
      step.pending.set(sequence, slot);
      return PENDING;
    });
    const draftTokens = slices.map(({ draftTokenMasks = [] }) =>
      draftTokenMasks.map((mask) => this.name(mask, step, masks)),
    );
    this.steps.push(step);
    return { masks, slices: told, draftTokens, before };
  }

  /** True if a step under way waits for masks. */
  get isAwaited(): boolean {
    return this.steps.some(({ pending }) => pending.size > 0);
  }

  /** A sequence's next mask is known. @returns whether a step under way waits for it */
  ready(sequence: Sequence, mask: TokenMask): boolean {
    const step = this.steps.find(({ pending }) => pending.has(sequence));
    const slot = step?.pending.get(sequence);
    if (step === undefined || slot === undefined) return false;
    step.pending.delete(sequence);
    if (this.outbox.slots.size === 0) queueMicrotask(() => this.flush());
    const named = { slot, mask: this.name(mask, step, this.outbox.masks) };
    this.outbox.slots.set(step, [...(this.outbox.slots.get(step) ?? []), named]);
    return true;
  }

  /**
   * A sequence has ended: nobody works out the mask that a step under way waits for, which alone would wait for long. What is
   * sampled for it is discarded, so any mask lets the step go on.
   */
  ended(sequence: Sequence): void {
    const [any] = this.known.keys();
    if (any !== undefined) this.ready(sequence, any);
  }

  /** The oldest step has returned, without a token for those who were late. */
  completed(late: readonly Sequence[]): void {
    for (const mask of this.steps.shift()?.named ?? []) mask.steps -= 1;
    // Nothing will come of what they have in later steps, either.
    for (const { pending } of this.steps) for (const sequence of late) pending.delete(sequence);
    // The next one's turn: until now it was not known whether it waits for a mask at all.
    for (const sequence of [...(this.steps[0]?.pending.keys() ?? [])]) {
      if (sequence.state === 'ended') this.ended(sequence);
    }
  }

  /** The id of a mask for a step; what the executor does not have is added to what it is sent. */
  private name(mask: TokenMask, step: MaskedStep, sent: TokenMaskMessage[]): number {
    let known = this.known.get(mask);
    if (known === undefined) {
      known = { id: this.freeId(), steps: 0 };
      sent.push({ id: known.id, allowed: this.padded(mask.bits) });
    }
    // Used last.
    this.known.delete(mask);
    this.known.set(mask, known);
    known.steps += 1;
    step.named.push(known);
    return known.id;
  }

  private freeId(): number {
    if (this.known.size < this.model.maskIds) return this.known.size + 1;
    for (const [mask, { id, steps }] of this.known) {
      if (steps > 0) continue;
      this.known.delete(mask);
      return id;
    }
    // A step names at most one for each row of logits, of which there are as many as slots, and the executor has ids for those of several steps.
    throw new Error('every mask is in use');
  }

  /** A model may have more rows than the tokenizer has tokens: nothing says what they are. */
  private padded(bits: Uint8Array): Buffer {
    const bytes = 4 * Math.ceil(this.model.vocabularySize / 32);
    if (bits.length === bytes) return Buffer.from(bits.buffer, bits.byteOffset, bytes);
    const padded = Buffer.alloc(bytes);
    padded.set(bits);
    return padded;
  }

  /** Masks still to be sent together with a step, if the previous one is all that waits for them: a message less. */
  private takeBefore(stepId: bigint): { readonly masks: TokenMaskMessage[]; readonly before: SlotMask[] } {
    const { masks, slots } = this.outbox;
    const [only] = slots.keys();
    if (slots.size !== 1 || only?.stepId !== stepId) {
      this.flush();
      return { masks: [], before: [] };
    }
    this.outbox = { masks: [], slots: new Map() };
    return { masks, before: slots.get(only) ?? [] };
  }

  private flush(): void {
    const { epoch } = this.model;
    let { masks } = this.outbox;
    const { slots } = this.outbox;
    this.outbox = { masks: [], slots: new Map() };
    for (const [{ stepId }, slotMasks] of slots) {
      this.send({ ...emptyFrame(stepId, epoch), masks, slotMasks });
      masks = [];
    }
  }
}
