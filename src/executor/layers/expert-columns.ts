import { RocmForgeError } from '../../shared/errors.js';
import type { Experts } from '../model/values.js';
import type { Weights } from '../model/weights.js';
import type { ColumnTiles } from './fusions.js';

/**
 * Column tiles of the places that rows are sent to; undefined if they are rows.
 *
 * @throws RocmForgeError `MODEL_UNSUPPORTED` where only some of the matrices take columns
 */
export function columnsOfExperts(
  value: Experts,
  weights: Weights,
  columns: ColumnTiles | undefined,
): ColumnTiles | undefined {
  const { gateUp, down } = weights.experts(value);
  const layouts = new Set([...gateUp, down].map(({ layout }) => layout));
  if (columns === undefined || !layouts.has('fragments')) return undefined;
  if (layouts.size === 1) return columns;
  const { name } = value.down.tensor;
  throw new RocmForgeError('MODEL_UNSUPPORTED', `${name}: experts with some F32 matrices are not supported`, {
    tensor: name,
  });
}
