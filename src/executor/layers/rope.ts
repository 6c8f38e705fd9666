import type { DeviceScope } from '../device/device.js';
import { ropeTable } from '../model/rope-table.js';
import type { VectorRef } from '../model/tensors.js';
import { isAttention, type Rope, type RopeDivisors, type StageGraph, valuesOf } from '../model/values.js';
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
  graph: StageGraph,
  weights: Weights,
  positions: number,
): ReadonlyMap<Rope, RopeTables> {
  const tables = new Map<Rope, RopeTables>();
  const ropes = [...valuesOf(graph)].filter(isAttention).flatMap((value) => {
    const after = value.kind === 'attention' ? value.qkNorm?.after : undefined;
    return after === undefined ? [value.rope] : [value.rope, after];
  });
  for (const used of ropes) {
    if (tables.has(used)) continue;
    const { divisors, temperature, ...rope } = used;
    const vector = divisors && 'short' in divisors ? divisorsFor(divisors, positions) : divisors;
    const { cosine, sine } = ropeTable(rope, positions, vector && memory.device.readF32(weights.vector(vector)));
    const queryFactors = temperature && memory.upload(temperatureFactors(temperature, positions));
    tables.set(used, { cosine: memory.upload(cosine), sine: memory.upload(sine), queryFactors });
  }
  return tables;
}

/** One vector for all of a served context: keys that were rotated by the one would not fit queries rotated by the other. */
export const divisorsFor = ({ short, long, originalContextLength }: RopeDivisors, positions: number): VectorRef =>
  positions > originalContextLength ? long : short;

const temperatureFactors = ({ scale, length }: NonNullable<Rope['temperature']>, positions: number): Float32Array =>
  Float32Array.from({ length: positions }, (_, position) => 1 + scale * Math.log(1 + Math.floor(position / length)));
