import type { ExecuteRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { snapshotState } from '../model/slot-layout.js';
import { KINDS } from '../parallel/block-checksums.js';
import type { BlockStore } from '../parallel/block-copies.js';
import { protocolError } from './protocol-error.js';
import { words } from './words.js';

const NONE = Buffer.alloc(0);

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
 * @returns those of KV blocks, of KV blocks of layers with a window, and of snapshots, one behind the other
 * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a block that there is not
 */
export async function queueChecksums(
  step: ExecuteRequest,
  { checksums, copies, forward }: LoadedModel,
  store: BlockStore | undefined,
): Promise<Buffer> {
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
  await copy('save', step.saveAt);
  return Buffer.concat(await summing);
}

/** @throws RocmForgeError `EXECUTOR_PROTOCOL` unless all are from 1 to `most` */
function numbers(bytes: Uint8Array, name: string, most: number): Int32Array {
  const asked = words(bytes);
  const wrong = asked.find((number) => number < 1 || number > most);
  if (wrong !== undefined) throw protocolError(`the checksum of ${name} ${wrong} of ${most}`);
  return new Int32Array(asked.buffer, asked.byteOffset, asked.length);
}
