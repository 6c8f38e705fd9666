import type { StepPlan } from '../../src/gateway/replica/scheduler/step-plan.js';
import { contentOf } from './block-contents.js';
import type { State } from './modelled-slot.js';
import { blocksOf, type Content, type SavedModel } from './saved-model.js';
import type { WindowModel } from './window-model.js';

/** Memory of a modelled executor, and the host's behind it. */
export interface ModelledMemory {
  readonly kv: Uint32Array;
  readonly windows: WindowModel | undefined;
  readonly snapshots: Map<number, State>;
  readonly saved: SavedModel;
}

/** Does what a step's checksums ask of blocks before its slices run. @returns the checksums */
export function checksumsOf({ checksums }: StepPlan, { kv, windows, snapshots, saved }: ModelledMemory): Uint8Array {
  if (checksums === undefined) return new Uint8Array(0);
  const states: Content = {
    get: (id) => snapshots.get(id),
    set: (id, state) => snapshots.set(id, { ...(state as State), snapshot: id }),
  };
  const contents = {
    ...{ blocks: blocksOf(kv), snapshots: states },
    windowBlocks: windows?.contents ?? blocksOf(new Uint32Array(0)),
  };
  saved.restore(checksums, contents);
  saved.save(checksums, contents);
  return bytesOf([
    ...checksums.blocks.map(({ block }) => contentOf(kv, block)),
    ...checksums.windowBlocks.map(({ block }) => windows?.contentOf(block) ?? 0),
    ...checksums.snapshots.map(({ block }) => snapshots.get(block)?.content ?? 0),
  ]);
}

/** Checksums of the first rows of blocks, when the step's slices have run. */
export function openChecksumsOf({ checksums }: StepPlan, { kv, windows }: ModelledMemory): Uint8Array {
  const open = checksums?.open ?? [];
  return bytesOf([
    ...open.map(({ block, rows }) => contentOf(kv, block, rows)),
    ...open.flatMap(({ windowBlock, rows }) => {
      return windowBlock === undefined ? [] : [windows?.contentOf(windowBlock, rows) ?? 0];
    }),
  ]);
}

const bytesOf = (sums: readonly number[]): Uint8Array => new Uint8Array(BigUint64Array.from(sums, BigInt).buffer);
