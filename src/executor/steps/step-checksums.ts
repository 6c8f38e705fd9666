import type { ExecuteRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { snapshotState } from '../model/slot-layout.js';
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
 * Queues the checksums that a frame asks for.
 *
 * @returns those of KV blocks, of KV blocks of layers with a window, and of snapshots, one behind the other
 * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a block that there is not
 */
export function queueChecksums(step: ExecuteRequest, { checksums, forward }: LoadedModel): Promise<Buffer> {
  if (!asksForChecksums(step)) return Promise.resolve(NONE);
  const { limits } = forward;
  const snapshots = numbers(step.checksumSnapshots, 'snapshot', limits.stateSnapshots ?? 0);
  const asked = {
    blocks: numbers(step.checksumBlocks, 'KV block', limits.kvBlocks - 1),
    windowBlocks: numbers(step.checksumWindowBlocks, 'KV block of a window', (limits.windowed?.blocks ?? 1) - 1),
    states: snapshots.map((id) => snapshotState(limits, id)),
  };
  const kinds = ['blocks', 'windowBlocks', 'states'] as const;
  return Promise.all(kinds.map((kind) => checksums.of(kind, asked[kind]))).then((parts) => Buffer.concat(parts));
}

/** @throws RocmForgeError `EXECUTOR_PROTOCOL` unless all are from 1 to `most` */
function numbers(bytes: Uint8Array, name: string, most: number): Int32Array {
  const asked = words(bytes);
  const wrong = asked.find((number) => number < 1 || number > most);
  if (wrong !== undefined) throw protocolError(`the checksum of ${name} ${wrong} of ${most}`);
  return new Int32Array(asked.buffer, asked.byteOffset, asked.length);
}
