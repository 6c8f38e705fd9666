import { type Allocator, bufferFrom, type DeviceBuffer } from '../device/device.js';
import type { Limits } from './limits.js';

/** Words of a mask: a bit a token. */
export function maskWords(vocabulary: number): number {
  return Math.ceil(vocabulary / 32);
}

/**
 * The masks of one step, in one range of device memory so that one copy brings them all, after the step's forward pass: they
 * depend on the tokens of the step before.
 *
 *   [row_mask max_sequences] [bits max_sequences * words]
 *
 * Rows of equal masks share one; only those a step has are copied.
 */
export class StepMasks {
  /** Words of each mask. */
  readonly words: number;
  readonly device: DeviceBuffer;
  /** `[max_sequences]`: index of each sampled row's mask, or why it has none. */
  readonly rowMask: DeviceBuffer;
  /** `[max_sequences, words]` */
  readonly bits: DeviceBuffer;
  /** First word of {@link bits}. */
  readonly firstBits: number;

  constructor(device: Allocator, { maxSequences }: Limits, vocabulary: number) {
    this.words = maskWords(vocabulary);
    this.firstBits = 16 * Math.ceil(maxSequences / 16);
    this.device = device.allocate('i32', this.firstBits + maxSequences * this.words);
    this.rowMask = this.device;
    this.bits = bufferFrom(this.device, this.firstBits);
  }
}
