import { createHash } from 'node:crypto';
import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import { blockSums, KV_BLOCK_TOKENS, PART_SUM_WORDS, SUMMED_PART_WORDS } from '../kernels/index.js';
import { LaunchPlanRecorder, runOnce } from '../kernels/launch-plan.js';

/** Words that a block of threads sums. */
const PART_WORDS = 1 << 18;

/** A row of block_sums' table. @param stride words from a block's part to the next block's */
export function writePartRow(table: Int32Array, row: number, address: number, stride: number, words: number): void {
  const at = SUMMED_PART_WORDS * row;
  table[at] = address % 2 ** 32;
  table[at + 1] = Math.floor(address / 2 ** 32);
  table[at + 2] = stride;
  table[at + 3] = words;
}

/** Checksums of what a device's memory holds, computed there. Not cryptographic: they find what was overwritten. */
export class DeviceSums {
  private readonly device: Device;
  /** Parts of each buffer. */
  private readonly parts: readonly number[];
  private readonly y: DeviceBuffer;
  private readonly plan: number;

  /** @param memory holds its table and results until it ends */
  constructor(memory: DeviceScope, buffers: readonly DeviceBuffer[]) {
    const counts = buffers.map(({ elements }) => Math.floor(elements / Int32Array.BYTES_PER_ELEMENT));
    this.device = memory.device;
    this.parts = counts.map((count) => Math.ceil(count / PART_WORDS));
    const total = this.parts.reduce((sum, count) => sum + count, 0);
    const rows = new Int32Array(SUMMED_PART_WORDS * Math.max(1, total));
    let row = 0;
    for (const [i, { address }] of buffers.entries()) {
      const count = counts[i] as number;
      for (let first = 0; first < count; first += PART_WORDS) {
        writePartRow(rows, row, address + 4 * first, 0, Math.min(PART_WORDS, count - first));
        row += 1;
      }
    }
    this.y = memory.allocate('i32', PART_SUM_WORDS * Math.max(1, total));
    const recorder = new LaunchPlanRecorder(memory.device, 0);
    const values = {
      blocks: memory.upload(Int32Array.of(0)),
      rows: memory.upload(Int32Array.of(KV_BLOCK_TOKENS)),
      parts: memory.upload(rows),
      row_words: memory.upload(new Int32Array(2 * Math.max(1, total))),
      y: this.y,
    };
    if (total > 0) recorder.launch(blockSums, { ...values, part_count: total }, { count: 1 });
    this.plan = memory.plan(recorder.finish());
  }

  /** @returns one sum a buffer, as hexadecimal digits; of whole words */
  async of(): Promise<readonly string[]> {
    await runOnce(this.device, this.plan);
    const sums = this.device.native.read(this.y.address, Int32Array.BYTES_PER_ELEMENT * this.y.elements);
    let end = 0;
    return this.parts.map((own) => {
      const from = end;
      end += Int32Array.BYTES_PER_ELEMENT * PART_SUM_WORDS * own;
      return createHash('sha256').update(sums.subarray(from, end)).digest('hex');
    });
  }
}
