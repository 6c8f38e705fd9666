import type { Matrix, MatrixLayout } from '../../model/matrix.js';
import { fileLayout } from './file.js';
import { fragmentsLayout } from './fragments.js';
import type { WeightLayout } from './layout.js';
import { planesLayout } from './planes.js';
import { isTile, tileLayout } from './tiles.js';

export type { ActivationEncoding, LaunchSite, SentRows, Target, WeightLayout } from './layout.js';

const LAYOUTS: Readonly<Record<MatrixLayout, (weight: Matrix, hasMatrixUnits: boolean) => WeightLayout>> = {
  file: (weight, hasMatrixUnits) => (hasMatrixUnits && isTile(weight) ? tileLayout : fileLayout),
  planes: () => planesLayout,
  fragments: () => fragmentsLayout,
};

/** Layout of a matrix on a device with matrix units, or without. */
export const layoutOf = (weight: Matrix, hasMatrixUnits: boolean): WeightLayout =>
  LAYOUTS[weight.layout](weight, hasMatrixUnits);
