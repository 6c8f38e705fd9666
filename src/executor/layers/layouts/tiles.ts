import * as kernels from '../../kernels/index.js';
import { joined, type Matrix } from '../../model/matrix.js';
import { biasOf, type SingleTokenProducts, type WeightLayout } from './layout.js';

const typeOf = ({ type }: Matrix): kernels.TileType => type as kernels.TileType;

/** True if matrix units multiply a matrix that lies as in its file. */
export const isTile = ({ type, columns }: Matrix): boolean =>
  kernels.isTileType(type) && columns % kernels.TILE_INPUT_MULTIPLE === 0;

const singleToken: SingleTokenProducts = {
  normalizes: ({ columns }) => kernels.canNormalizeTile(columns),
  addsBias: true,
  add({ launch }, weight, x, y, parts) {
    const { columns, rows: out, buffer } = weight;
    const values = { weight: buffer, x, y, parts, out, in: columns };
    launch(kernels.matmulTileSummed(typeOf(weight)), values, { parts: kernels.normParts(out) });
  },
  multiply({ launch }, weight, input, y, bias) {
    const { columns, rows: out, buffer } = weight;
    const values = { weight: buffer, ...input, y, out, ...biasOf(bias, input), in: columns };
    const sizes = { parts: kernels.normParts(columns), biases: bias ? out : 0 };
    launch(kernels.matmulTileNormed(typeOf(weight)), values, sizes);
  },
  gates: (matrices) => joined(matrices) !== undefined,
  gate({ launch }, matrices, input, y) {
    const both = joined(matrices) as Matrix;
    const { columns, buffer } = both;
    const values = { weight: buffer, ...input, y, ffn: both.rows / 2, in: columns };
    launch(kernels.gateUpTileNormed(typeOf(both)), values, { parts: kernels.normParts(columns) });
  },
};

/** Rows of f16 and bf16 as the file has them, multiplied by matrix units. */
export const tileLayout: WeightLayout = {
  inputEncoding: typeOf,
  accumulates: () => true,
  multiply({ launch }, weight, x, rows, { y, stride, accumulate = false }) {
    const { buffer, rows: out, columns } = weight;
    const values = { weight: buffer, x, y, out, y_stride: stride, accumulate: Number(accumulate), in: columns };
    kernels.launchMatmulTile(launch, typeOf(weight), rows, values);
  },
  multiplyExperts({ launch }, weight, x, sent, { y, stride }) {
    const { buffer, rows: out, columns } = weight;
    const values = { weight: buffer, x, y, runs: sent.table, out, in: columns, y_stride: stride };
    kernels.launchMatmulTileExperts(launch, typeOf(weight), sent, values);
  },
  gated: {
    takes: () => true,
    apart: (both, rows) => kernels.gateUpApart(rows, both.rows / 2),
    multiply({ launch }, both, x, rows, encoding, y) {
      const values = { weight: both.buffer, x, y, ffn: both.rows / 2, hidden: both.columns };
      kernels.launchGateUpSwigluTile(launch, encoding, rows, values);
    },
  },
  singleToken: () => singleToken,
};
