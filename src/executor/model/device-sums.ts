import { createHash } from 'node:crypto';
import type { DeviceBuffer, DeviceScope } from '../device/device.js';
import { blockSums, SUMMED_PART_WORDS } from '../kernels/index.js';
import { LaunchPlanRecorder, runOnce } from '../kernels/launch-plan.js';

/** Words that a block of threads sums. */
const PART_WORDS = 1 << 16;
/** Words of a part's checksum. */
const PART_SUMS = 2;

/** A row of block_sums' table. @param stride words from a block's part to the next block's */
export function writePartRow(table: Int32Array, row: number, address: number, stride: number, words: number): void {
  const at = SUMMED_PART_WORDS * row;
  table[at] = address % 2 ** 32;
  table[at + 1] = Math.floor(address / 2 ** 32);
  table[at + 2] = stride;
  table[at + 3] = words;
}

/**
 * Checksums of what a device's memory holds, computed there. Not cryptographic: they find what was overwritten.
 *
 * @param scope where the work takes its memory
 * @returns one sum a buffer, as hexadecimal digits; of whole words
 */
export async function deviceSums(scope: DeviceScope, buffers: readonly DeviceBuffer[]): Promise<readonly string[]> {
  const counts = buffers.map(({ elements }) => Math.floor(elements / Int32Array.BYTES_PER_ELEMENT));
  const parts = counts.map((count) => Math.ceil(count / PART_WORDS));
  const total = parts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return buffers.map(() => '');
  const rows = new Int32Array(SUMMED_PART_WORDS * total);
  let row = 0;
  for (const [i, { address }] of buffers.entries()) {
    const count = counts[i] as number;
    for (let first = 0; first < count; first += PART_WORDS) {
      writePartRow(rows, row, address + 4 * first, 0, Math.min(PART_WORDS, count - first));
      row += 1;
    }
  }
  const inner = scope.child();
  try {
    const y = inner.allocate('i32', PART_SUMS * total);
    const recorder = new LaunchPlanRecorder(scope.device, 0);
    const values = { blocks: inner.upload(Int32Array.of(0)), parts: inner.upload(rows), y, part_count: total };
    recorder.launch(blockSums, values, { count: 1 });
    await runOnce(scope.device, inner.plan(recorder.finish()));
    const sums = scope.device.native.read(y.address, 4 * PART_SUMS * total);
    let end = 0;
    return parts.map((own) => {
      const from = end;
      end += 4 * PART_SUMS * own;
      return createHash('sha256').update(sums.subarray(from, end)).digest('hex');
    });
  } finally {
    inner.release();
  }
}
