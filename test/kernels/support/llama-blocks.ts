import { createHash } from 'node:crypto';
import type { BlockType } from '../../../src/executor/kernels/index.js';
import { everyExponent, randomBlocks } from './blocks.js';
import { Random } from './values.js';

/** Blocks that test/fixtures/llama-blocks.json tells of: enough that each of 2,048 entries of a table is there. */
export const ggmlBlocks = (type: BlockType): Uint8Array =>
  everyExponent(type, randomBlocks(type, 1000, new Random(2026)));

/** Hash of the values' bits, zeros without their sign. */
export function hashOf(values: Float32Array): string {
  const unsigned = values.map((value) => value + 0);
  return createHash('sha256').update(new Uint8Array(unsigned.buffer)).digest('hex');
}
