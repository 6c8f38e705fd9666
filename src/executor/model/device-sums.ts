import { createHash } from 'node:crypto';
import { bufferFrom, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import { readWords } from '../kernels/index.js';
import { LaunchPlanRecorder, runOnce } from '../kernels/launch-plan.js';

/** Words whose exclusive or is one word of a sum: what is wrong in a page is not made up for by another page. */
const PART_WORDS = 4096;

/**
 * Checksums of what a device's memory holds, computed there. Not cryptographic: they find what was overwritten.
 *
 * @param scope where the work takes its memory
 * @returns one sum a buffer, as hexadecimal digits; of whole words
 */
export async function deviceSums(scope: DeviceScope, buffers: readonly DeviceBuffer[]): Promise<readonly string[]> {
  const inner = scope.child();
  try {
    const counts = buffers.map(({ elements }) => Math.floor(elements / Int32Array.BYTES_PER_ELEMENT));
    const parts = counts.map((count) => Math.ceil(count / PART_WORDS));
    const y = inner.allocate(
      'i32',
      parts.reduce((sum, count) => sum + count, 0),
    );
    const recorder = new LaunchPlanRecorder(scope.device, 0);
    let first = 0;
    const firsts = buffers.map(({ address }, i) => {
      const [count, own] = [counts[i] as number, parts[i] as number];
      const words = { address, dtype: 'i32', elements: count } as const;
      if (own > 0) {
        recorder.launch(readWords, { words, y: bufferFrom(y, first), count, part: PART_WORDS }, { parts: own });
      }
      first += own;
      return first - own;
    });
    await runOnce(scope.device, inner.plan(recorder.finish()));
    return firsts.map((from, i) => {
      const bytes = scope.device.native.read(bufferFrom(y, from).address, 4 * (parts[i] as number));
      return createHash('sha256').update(bytes).digest('hex');
    });
  } finally {
    inner.release();
  }
}
