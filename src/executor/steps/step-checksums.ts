import type { ExecuteRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { StoreError } from '../device/saved-memory.js';
import { KV_BLOCK_TOKENS } from '../kernels/index.js';
import type { LoadedModel } from '../load/loaded-model.js';
import type { Limits } from '../model/limits.js';
import { snapshotState } from '../model/slot-layout.js';
import { KINDS } from '../parallel/block-checksums.js';
import { protocolError } from './protocol-error.js';
import { words } from './words.js';

const NO_CHECKSUMS = Buffer.alloc(0);
const NONE: StepChecksums = { checksums: NO_CHECKSUMS, notCopied: false };

/** Results of what a frame asks of blocks, beside its slices. */
export interface StepChecksums {
  /** Those of KV blocks, of KV blocks of layers with a window, and of snapshots, one behind the other. */
  readonly checksums: Buffer;
  /** True if the host's memory could not be written. */
  readonly notCopied: boolean;
}

/** True if a frame asks for checksums. */
export function asksForChecksums(step: ExecuteRequest): boolean {
  return asksForWholeBlocks(step) || step.openBlocks.length > 0;
}

function asksForWholeBlocks({ checksumBlocks, checksumWindowBlocks, checksumSnapshots }: ExecuteRequest): boolean {
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
  if (!asksForWholeBlocks(step)) return NONE;
  const { limits } = forward;
  const snapshots = numbers(step.checksumSnapshots, 'snapshot', limits.stateSnapshots ?? 0);
  const asked = {
    ...kvBlocks(limits, step.checksumBlocks, step.checksumWindowBlocks),
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

/**
 * Queues the checksums of the first rows of blocks behind the step's slices, which may write to these.
 *
 * @returns those of KV blocks, then those of KV blocks of layers with a window
 * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a block or a number of rows that there is not
 */
export async function queueOpenChecksums(
  { openBlocks, openWindowBlocks, openRows }: ExecuteRequest,
  { checksums, forward }: LoadedModel,
): Promise<Buffer> {
  if (openBlocks.length === 0) return NO_CHECKSUMS;
  const { blocks, windowBlocks } = kvBlocks(forward.limits, openBlocks, openWindowBlocks);
  const rows = numbers(openRows, 'rows', KV_BLOCK_TOKENS);
  const counts = [blocks.length, forward.limits.windowed === undefined ? 0 : blocks.length];
  if (!checksums.sumsRows || rows.length !== counts[0] || windowBlocks.length !== counts[1])
    throw protocolError('open blocks without their rows, or of a model that does not sum rows');
  const sums = [
    checksums.of('blocks', blocks, rows),
    checksums.of('windowBlocks', windowBlocks, rows.slice(0, counts[1])),
  ];
  return Buffer.concat(await Promise.all(sums));
}

function kvBlocks({ kvBlocks, windowed }: Limits, blocks: Uint8Array, windowBlocks: Uint8Array) {
  return {
    blocks: numbers(blocks, 'KV block', kvBlocks - 1),
    windowBlocks: numbers(windowBlocks, 'KV block of a window', (windowed?.blocks ?? 1) - 1),
  };
}

/** @throws RocmForgeError `EXECUTOR_PROTOCOL` unless all are from 1 to `most` */
function numbers(bytes: Uint8Array, name: string, most: number): Int32Array {
  const asked = words(bytes);
  const wrong = asked.find((number) => number < 1 || number > most);
  if (wrong !== undefined) throw protocolError(`the checksum of ${name} ${wrong} of ${most}`);
  return new Int32Array(asked.buffer, asked.byteOffset, asked.length);
}
