import type { Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { firstSeenBlock } from '../../shared/kv-window.js';
import { KV_BLOCK_TOKENS } from '../kernels/index.js';
import type { WindowLimits } from '../model/limits.js';
import { protocolError } from './protocol-error.js';

/** A slot's block table of windowed layers. */
interface WindowTable {
  readonly windowStart: number;
  readonly windowBlocks: ReadonlySet<number>;
}

/**
 * Every position that a row of the slice sees or writes must be in a block that is the slot's.
 *
 * @throws RocmForgeError `EXECUTOR_PROTOCOL`
 */
export function checkWindow({ windowStart, windowBlocks }: WindowTable, slice: Slice, { window }: WindowLimits): void {
  const end = windowStart + windowBlocks.size;
  const first = firstSeenBlock(slice.position, window, KV_BLOCK_TOKENS);
  if (first >= windowStart && slice.position + slice.count <= end * KV_BLOCK_TOKENS) return;
  throw protocolError(
    `positions ${slice.position} to ${slice.position + slice.count} of slot ${slice.slot} with windowed blocks from ` +
      `${windowStart} to ${end}`,
  );
}
