import { setFlagsFromString } from 'node:v8';

/** Percent by which the old generation may grow between two collections: the least that V8 itself chooses. */
const HEAP_GROWTH_PERCENT = 30;

/**
 * Has V8 collect garbage before the heaps of this process and its threads have grown by a multiple. Large requests leave garbage in the
 * old generation, which a gateway with much memory left would otherwise collect after it has taken hundreds of megabytes.
 */
export function limitHeapGrowth(): void {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH_PERCENT}`);
}
