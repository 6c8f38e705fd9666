import type { LoadedModel } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { EngineListener } from './engine-options.js';
import { type BlockBytes, type BlockKind, KINDS } from './scheduler/block-checksums.js';
import type { SavedContents } from './scheduler/saved-blocks.js';
import type { Scheduler } from './scheduler/scheduler.js';

/** Properties of an executor's model that decide whether copies fit it. */
type SavingModel = Pick<
  LoadedModel,
  'savesBlocks' | 'blockBytes' | 'windowBlockBytes' | 'snapshotBytes' | 'arithmetic'
>;

/** Memory of the host that copies leave to others, in bytes. */
const LEFT_BYTES = 256 << 20;

/** Bytes of a block of each kind. */
export function blockBytesOf(model: SavingModel): Omit<BlockBytes, 'mostCompared'> {
  const { blockBytes, windowBlockBytes, snapshotBytes } = model;
  return { blocks: Number(blockBytes), windowBlocks: Number(windowBlockBytes), snapshots: Number(snapshotBytes) };
}

/** The KV blocks and snapshots of a model, for the time in which it is unloaded: executors copy them to the host's memory and back. */
export class UnloadedContents {
  private saved: (SavedContents & { readonly numerics: string }) | undefined;
  private isRestoring = false;
  /** The model is to be unloaded, once what the host's memory still holds is back or given up. */
  private isToSave = false;
  private releases = 0;
  /** An executor was lost while it copied; others would be, too, and the model never unloaded. */
  private isGivenUp = false;
  /** The host's memory has copies that are not needed, or that a step is still writing. */
  private isStale = false;

  /** @param most bytes; 0: nothing is copied */
  constructor(
    private readonly most: number,
    private readonly listener: Pick<EngineListener, 'saved' | 'savedReleased'>,
  ) {}

  /** Bytes of what the host's memory has copies of. */
  get bytes(): number {
    const { saved } = this;
    return saved?.runs.reduce((sum, { kind, blocks }) => sum + saved.bytes[kind] * blocks.length, 0) ?? 0;
  }

  /** True from {@link save} on, until everything is copied or something is to be computed. */
  isSaving({ saving }: Scheduler): boolean {
    return this.isToSave || saving.isUnderWay;
  }

  /**
   * Copies what can be found. Continues with the next steps.
   *
   * @returns true if there is nothing left to copy; else `saved` follows, and then it is to be called again
   */
  save({ saving, checksums, restores }: Scheduler, model: SavingModel): boolean {
    if (this.most === 0 || !model.savesBlocks || this.isGivenUp) return true;
    this.isToSave = checksums.isComparing || restores.isUnderWay || this.releases > 0;
    if (this.isToSave) return false;
    if (!saving.isUnderWay && !saving.isComplete) {
      const available = Math.max(0, process.availableMemory() - LEFT_BYTES);
      saving.begin(blockBytesOf(model), Math.min(this.most, available));
      // It is written anew.
      this.isStale = false;
      this.isRestoring = false;
    }
    return saving.isComplete;
  }

  /** A step has returned. */
  stepReturned({ saving, checksums, restores }: Scheduler, wasSaving: boolean): void {
    const isRestored = this.isRestoring && !restores.isUnderWay;
    if (isRestored || (this.isStale && !saving.isWriting)) this.release();
    const maySave = this.isToSave && !checksums.isComparing && !restores.isUnderWay && this.releases === 0;
    if (maySave || (wasSaving && saving.isComplete)) this.listener.saved();
  }

  /** Something is to be computed: copies would be too old. */
  cancel({ saving }: Scheduler): void {
    this.isGivenUp = false;
    this.isToSave = false;
    if (!saving.isUnderWay && !saving.isComplete) return;
    saving.cancel();
    this.isStale = true;
    if (!saving.isWriting) this.release();
  }

  /** The executor has ended. Called before the scheduler forgets what it has copied. */
  executorLost({ saving }: Scheduler, numerics: string): void {
    this.isGivenUp ||= saving.isUnderWay;
    this.isToSave = false;
    this.isStale ||= this.isRestoring || saving.isUnderWay;
    this.isRestoring = false;
    const { contents } = saving;
    this.saved = contents && { ...contents, numerics };
  }

  /**
   * Makes copies findable again, if the next executor takes them.
   *
   * @param isKept true if it has the memory that they were copied from
   * @returns false if nothing was copied, or for another executor
   */
  restore(scheduler: Scheduler, model: SavingModel, isKept: boolean): boolean {
    const { saved } = this;
    this.saved = undefined;
    if (this.isStale) this.release();
    if (saved === undefined) return false;
    const bytes = blockBytesOf(model);
    const isFor = !isKept && model.savesBlocks && model.arithmetic === saved.numerics;
    const fits = isFor && KINDS.every((kind: BlockKind) => bytes[kind] === saved.bytes[kind]);
    if (fits) scheduler.restoreContents(saved);
    this.isRestoring = fits && scheduler.restores.isUnderWay;
    if (!this.isRestoring) this.release();
    return fits;
  }

  private release(): void {
    this.isRestoring = false;
    this.isStale = false;
    this.releases += 1;
    void this.listener.savedReleased().then(() => {
      this.releases -= 1;
      if (this.isToSave) this.listener.saved();
    });
  }
}
