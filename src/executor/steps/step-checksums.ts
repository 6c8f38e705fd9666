import type { ExecuteRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { StoreError } from '../device/saved-memory.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { snapshotState } from '../model/slot-layout.js';
import { KINDS } from '../parallel/block-checksums.js';
import type { BlockStore } from '../parallel/block-copies.js';
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
 * @param store memory of the host that outlives this process; undefined: there is none
 * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a block that there is not
 */
export async function queueChecksums(
  step: ExecuteRequest,
  { checksums, copies, forward }: LoadedModel,
  store: BlockStore | undefined,
): Promise<StepChecksums> {
  if (!asksForChecksums(step)) return NONE;
  const { limits } = forward;
  const snapshots = numbers(step.checksumSnapshots, 'snapshot', limits.stateSnapshots ?? 0);
  const asked = {
    blocks: numbers(step.checksumBlocks, 'KV block', limits.kvBlocks - 1),
    windowBlocks: numbers(step.checksumWindowBlocks, 'KV block of a window', (limits.windowed?.blocks ?? 1) - 1),
    states: snapshots.map((id) => snapshotState(limits, id)),
  };
  const copy = async (kindOf: 'save' | 'restore', from: bigint | undefined): Promise<void> => {
    if (from === undefined) return;
    if (store === undefined || step.slices.length > 0)
      throw protocolError(`${kindOf}_at with slices or without memory`);
    let at = Number(from);
    for (const kind of KINDS) {
      await copies[kindOf](kind, asked[kind], store, at);
      at += asked[kind].length * copies.bytes[kind];
    }
  };
  if (step.restoreAt !== undefined) await copy('restore', step.restoreAt);
  const summing = Promise.all(KINDS.map((kind) => checksums.of(kind, asked[kind])));
  let notCopied = false;
  try {
    await copy('save', step.saveAt);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    notCopied = true;
  }
  return { checksums: Buffer.concat(await summing), notCopied };
}

/** @throws RocmForgeError `EXECUTOR_PROTOCOL` unless all are from 1 to `most` */
function numbers(bytes: Uint8Array, name: string, most: number): Int32Array {
  const asked = words(bytes);
  const wrong = asked.find((number) => number < 1 || number > most);
  if (wrong !== undefined) throw protocolError(`the checksum of ${name} ${wrong} of ${most}`);
  return new Int32Array(asked.buffer, asked.byteOffset, asked.length);
}
