import type { DeviceScope } from '../device/device.js';
import { ropeTable } from '../model/rope-table.js';
import { type ModelGraph, type Rope, valuesOf } from '../model/values.js';
import type { Weights } from '../model/weights.js';
import type { RopeTables } from './paged-attention.js';

/**
 * The rotations of a model's layers on the device, one pair of tables a kind.
 *
 * @param positions that a sequence may have
 * @throws RocmForgeError `GGUF_INVALID` for divisors that are no numbers above 0
 */
export function uploadRopes(
  memory: DeviceScope,
  graph: ModelGraph,
  weights: Weights,
  positions: number,
): ReadonlyMap<Rope, RopeTables> {
  const tables = new Map<Rope, RopeTables>();
  for (const value of valuesOf(graph)) {
    if (value.kind !== 'attention' || tables.has(value.rope)) continue;
    const { divisors, ...rope } = value.rope;
    const { cosine, sine } = ropeTable(rope, positions, divisors && memory.device.readF32(weights.vector(divisors)));
    tables.set(value.rope, { cosine: memory.upload(cosine), sine: memory.upload(sine) });
  }
  return tables;
}
