import type { ExecuteRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { StoreError } from '../device/saved-memory.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { snapshotState } from '../model/slot-layout.js';
import { KINDS } from '../parallel/block-checksums.js';
import { protocolError } from './protocol-error.js';
import { words } from './words.js';

const NONE: StepChecksums = { checksums: Buffer.alloc(0), notCopied: false };

/** Results of what a frame asks of blocks, beside its slices. */
export interface StepChecksums {
  /** Those of KV blocks, of KV blocks of layers with a window, and of snapshots, one behind the other. */
  readonly checksums: Buffer;
  /** True if the host's memory could not be written. */
  readonly notCopied: boolean;
}

/** True if a frame asks for checksums. */
export function asksForChecksums(step: ExecuteRequest): boolean {
  const { checksumBlocks, checksumWindowBlocks, checksumSnapshots } = step;
  return checksumBlocks.length + checksumWindowBlocks.length + checksumSnapshots.length > 0;
}

/** True if a frame has something to compute, or changes slots. */
export function hasSlotWork({ closes, opens, appends, slices }: ExecuteRequest): boolean {
  return closes.length + opens.length + appends.length + slices.length > 0;
}

/**
 * Queues the checksums that a frame asks for, and the copies of these blocks to and from the host's memory.
 *
 * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a block that there is not
 */
export async function queueChecksums(
  step: ExecuteRequest,
  { checksums, copies, forward }: LoadedModel,
): Promise<StepChecksums> {
  if (!asksForChecksums(step)) return NONE;
  const { limits } = forward;
  const snapshots = numbers(step.checksumSnapshots, 'snapshot', limits.stateSnapshots ?? 0);
  const asked = {
    blocks: numbers(step.checksumBlocks, 'KV block', limits.kvBlocks - 1),
    windowBlocks: numbers(step.checksumWindowBlocks, 'KV block of a window', (limits.windowed?.blocks ?? 1) - 1),
    states: snapshots.map((id) => snapshotState(limits, id)),
  };
  if ((step.restoreAt ?? step.saveAt) !== undefined && (copies === undefined || step.slices.length > 0))
    throw protocolError('restore_at or save_at with slices, or without memory for them');
  // Everything is queued before this returns: steps that come meanwhile may compute what these blocks hold after them.
  const restoring = step.restoreAt === undefined ? undefined : copies?.restore(asked, Number(step.restoreAt));
  const summing = Promise.all([restoring, ...KINDS.map((kind) => checksums.of(kind, asked[kind]))]);
  // If copying fails, too, that is reported.
  summing.catch(() => undefined);
  let notCopied = false;
  try {
    if (step.saveAt !== undefined) await copies?.save(asked, Number(step.saveAt));
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    notCopied = true;
  }
  const [, ...sums] = await summing;
  return { checksums: Buffer.concat(sums), notCopied };
}

/** @throws RocmForgeError `EXECUTOR_PROTOCOL` unless all are from 1 to `most` */
function numbers(bytes: Uint8Array, name: string, most: number): Int32Array {
  const asked = words(bytes);
  const wrong = asked.find((number) => number < 1 || number > most);
  if (wrong !== undefined) throw protocolError(`the checksum of ${name} ${wrong} of ${most}`);
  return new Int32Array(asked.buffer, asked.byteOffset, asked.length);
}
