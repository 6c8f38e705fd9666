import type { SlotMask, TokenMask } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { MASK_LATE, MASK_NONE } from '../kernels/index.js';
import type { StepMasks } from '../model/step-masks.js';
import { protocolError } from './protocol-error.js';

/** Masks that a step in flight waits for. */
interface Awaited {
  readonly stepId: bigint;
  /** By slot: its mask's id, or that it is not known yet. */
  readonly masks: Map<number, number | undefined>;
  missing: number;
  arrived: () => void;
}

/** Masks that a gateway may have with an executor of so many slots: some for each state that a sequence comes back to. */
export function maskIdsFor(maxSequences: number): number {
  return 64 + 4 * maxSequences;
}

/** Milliseconds that a step waits for masks once everything else of it is computed: this, or a share of what that took. */
const LATE_MS = 0.3;
const LATE_SHARE = 0.02;
/** And this where every slice of it waits: nobody else is held up, and being late costs more. */
const ALONE_MS = 20;

/** Steps that masks may come before. */
const MOST_EARLY = 16;

/**
 * The masks of one epoch by their ids, in the host's memory: what a step's rows need of them goes to the device with the
 * step's own copy, so that no mask changes under a step that is under way.
 */
export class MaskTable {
  private readonly masks = new Map<number, Int32Array>();
  private awaited: Awaited | undefined;
  /** Those that came before their step waited. */
  private early: { readonly stepId: bigint; readonly slotMasks: readonly SlotMask[] }[] = [];
  private lastStepId = 0n;

  /** @param words of a mask */
  constructor(
    private readonly ids: number,
    private readonly words: number,
  ) {}

  /** @throws RocmForgeError `EXECUTOR_PROTOCOL` */
  add(masks: readonly TokenMask[]): void {
    for (const { id, allowed } of masks) {
      if (id === 0 || id > this.ids) throw protocolError(`mask ${id} of ${this.ids}`);
      if (allowed.byteLength !== 4 * this.words) {
        throw protocolError(`mask ${id} of ${allowed.byteLength} bytes, not ${4 * this.words}`);
      }
      // A copy: the message's bytes need not be aligned.
      this.masks.set(id, new Int32Array(Uint8Array.from(allowed).buffer));
    }
  }

  /** @throws RocmForgeError `EXECUTOR_PROTOCOL` */
  get(id: number): Int32Array {
    const mask = this.masks.get(id);
    if (mask === undefined) throw protocolError(`mask ${id}, which is not there`);
    return mask;
  }

  /** A step begins: what came for those before it, and has not been waited for, is of no use. */
  begin(stepId: bigint): void {
    this.lastStepId = stepId;
    this.early = this.early.filter((each) => each.stepId >= stepId);
  }

  /**
   * Masks of slots whose slices were pending; those of a step that does not wait any more are too late.
   *
   * @throws RocmForgeError `EXECUTOR_PROTOCOL`
   */
  arrive(stepId: bigint, slotMasks: readonly SlotMask[]): void {
    const { awaited } = this;
    for (const { mask } of slotMasks) this.get(mask);
    if (stepId > this.lastStepId) {
      if (this.early.length === MOST_EARLY)
        throw protocolError(`masks for ${MOST_EARLY + 1} steps that are still to come`);
      this.early.push({ stepId, slotMasks });
    }
    if (awaited?.stepId !== stepId) return;
    for (const { slot, mask } of slotMasks) {
      if (!awaited.masks.has(slot)) throw protocolError(`a mask for slot ${slot}, which has none pending`);
      if (awaited.masks.get(slot) === undefined) awaited.missing -= 1;
      awaited.masks.set(slot, mask);
    }
    if (awaited.missing === 0) awaited.arrived();
  }

  /**
   * Waits for the masks of a step's slots: until all are there, or everything else has been computed and a little more time
   * has passed.
   *
   * @param computed resolves when everything else is, with its microseconds
   * @param isAlone whether nothing else is computed in the step
   * @returns by slot the mask's id; slots whose masks have not come are left out
   */
  async wait(
    stepId: bigint,
    slots: readonly number[],
    computed: Promise<number>,
    isAlone: boolean,
  ): Promise<ReadonlyMap<number, number>> {
    const masks = new Map<number, number | undefined>(slots.map((slot) => [slot, undefined]));
    const all = new Promise<void>((resolve) => {
      this.awaited = { stepId, masks, missing: slots.length, arrived: resolve };
    });
    const awaited = this.awaited as Awaited;
    const early = this.early.filter((each) => each.stepId === stepId);
    for (const { slotMasks } of early) this.arrive(stepId, slotMasks);
    const over = computed.then(async (us) => {
      const end = performance.now() + (isAlone ? ALONE_MS : Math.max(LATE_MS, (LATE_SHARE * us) / 1000));
      // Timers have milliseconds; this looks at what has come in between.
      while (awaited.missing > 0 && performance.now() < end) await new Promise((resolve) => setImmediate(resolve));
    });
    try {
      await Promise.race([all, over]);
    } finally {
      this.awaited = undefined;
    }
    return new Map([...masks].filter((entry): entry is [number, number] => entry[1] !== undefined));
  }
}

/**
 * Writes a step's masks as {@link StepMasks} lays them out, equal ones once.
 *
 * @param rows sampled rows that are masked; without a mask nothing is to be sampled for one
 * @returns the bytes in use
 */
export function writeMasks(
  { firstBits, words }: Pick<StepMasks, 'firstBits' | 'words'>,
  target: Int32Array,
  rows: readonly { readonly sample: number; readonly mask: Int32Array | undefined }[],
): Uint8Array {
  target.fill(MASK_NONE, 0, firstBits);
  const indices = new Map<Int32Array, number>();
  for (const { sample, mask } of rows) {
    if (mask === undefined) {
      target[sample] = MASK_LATE;
      continue;
    }
    const index = indices.get(mask) ?? indices.size;
    if (!indices.has(mask)) {
      indices.set(mask, index);
      target.set(mask, firstBits + index * words);
    }
    target[sample] = index;
  }
  return new Uint8Array(target.buffer, 0, 4 * (firstBits + indices.size * words));
}
