import type { Device } from '../device/device.js';

/** Note that weights are on the device. */
const NOTE = 'weights';
interface Note {
  /** {@link NotedWeights.checksum}, as decimal digits. */
  readonly checksum: string;
  readonly sums: readonly string[];
}

/** Weights that a process before this one has brought to memory that outlives it. */
export interface NotedWeights {
  /** `TensorReader.checksum` of what it has read. */
  readonly checksum: bigint;
  /** Checksums of the allocations. */
  readonly sums: readonly string[];
}

/** The note of a process before this one that brought as many allocations. */
export function notedWeights({ kept }: Device, count: number): NotedWeights | undefined {
  const text = kept?.noted(NOTE);
  if (text === undefined) return undefined;
  const { checksum, sums } = JSON.parse(text) as Note;
  return sums.length === count ? { checksum: BigInt(checksum), sums } : undefined;
}

/** Leaves a note of the weights for the processes that follow. */
export async function noteWeights({ kept }: Device, { checksum, sums }: NotedWeights): Promise<void> {
  await kept?.note(NOTE, JSON.stringify({ checksum: String(checksum), sums } satisfies Note));
}

/** True if a process before this one has brought weights to the device. */
export const hasWeights = ({ kept }: Device): boolean => kept?.noted(NOTE) !== undefined;
