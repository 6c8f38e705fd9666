import * as kernels from '../../kernels/index.js';
import { joined, type Matrix } from '../../model/matrix.js';
import type { ColumnTiles } from '../fusions.js';
import { biasOf, type LaunchSite, type SingleTokenProducts, type WeightLayout } from './layout.js';

export const formatOf = ({ type }: Matrix): kernels.FragmentFormat =>
  kernels.fragmentFormat(type as kernels.FragmentType);

export const fragmentSizes = ({ rows, columns }: Matrix) => ({
  ...{ tiles: kernels.tilesOf(rows), chunks: kernels.chunksOf(columns) },
  parts: kernels.normParts(columns),
});

const tilesAt = ({ columns }: LaunchSite): ColumnTiles => columns as ColumnTiles;

const singleToken: SingleTokenProducts = {
  normalizes: () => true,
  addsBias: true,
  add(site, weight, x, y, parts) {
    const { columns, rows: out, buffer } = weight;
    const sizes = { ...fragmentSizes(weight), parts: kernels.normParts(out) };
    const values = { weight: buffer, x, y, parts, out, in: columns, x_rows: tilesAt(site).rows };
    site.launch(kernels.linearSummed(formatOf(weight)), values, sizes);
  },
  multiply(site, weight, input, y, bias) {
    const { columns, rows: out, buffer } = weight;
    const { saturated } = tilesAt(site);
    const values = { weight: buffer, ...input, y, out, ...biasOf(bias, input), saturated, in: columns };
    const sizes = { ...fragmentSizes(weight), biases: bias ? out : 0 };
    site.launch(kernels.linearNormed(formatOf(weight)), values, sizes);
  },
  gates(matrices) {
    const both = joined(matrices);
    return both !== undefined && kernels.canShareSwiglu(both.rows / 2);
  },
  gate(site, matrices, input, y) {
    const both = joined(matrices) as Matrix;
    const { columns: hidden, buffer: weight } = both;
    const ffn = both.rows / 2;
    const { rows: y_rows, saturated } = tilesAt(site);
    const sizes = { chunks: kernels.chunksOf(hidden), parts: kernels.normParts(hidden) };
    site.launch(
      kernels.linearSwiglu(formatOf(both)),
      { weight, ...input, y, saturated, ffn, hidden, y_rows },
      { ...sizes, tiles: kernels.tilesOf(ffn), ffn_chunks: kernels.chunksOf(ffn) },
    );
  },
};

/** Fragments in the order in which lanes pass them to matrix instructions: Hopper. */
export const fragmentsLayout: WeightLayout = {
  inputEncoding: ({ type }) => (type === 'bf16' ? 'bf16' : 'f16'),
  accumulates: () => true,
  multiply(site, weight, x, rows, { y, stride, accumulate = false }) {
    const { buffer, rows: out, columns } = weight;
    const shared = { weight: buffer, x, y, out, y_stride: stride, accumulate: Number(accumulate) };
    const x_rows = tilesAt(site).rows;
    kernels.launchLinear(site.launch, formatOf(weight), rows, { ...shared, in: columns, x_rows });
  },
  multiplyExperts(site, weight, x, sent, { y, stride }) {
    const { buffer, rows: out, columns } = weight;
    const shared = { weight: buffer, x, y, runs: sent.table, out, in: columns, x_rows: tilesAt(site).rows };
    kernels.launchLinearExperts(site.launch, formatOf(weight), sent, { ...shared, y_stride: stride });
  },
  gated: {
    // If a file stores them as one matrix, the first of up's rows may lie within a tile.
    takes: ({ rows }) => rows % (2 * kernels.FRAGMENT_TILE_ROWS) === 0,
    apart: (_both, rows) => kernels.linearGatedApart(rows),
    multiply(site, both, x, rows, _encoding, y) {
      const { rows: x_rows, saturated } = tilesAt(site);
      const values = { weight: both.buffer, x, y, ffn: both.rows / 2, hidden: both.columns, saturated, x_rows };
      kernels.launchLinearGated(site.launch, formatOf(both), rows, values);
    },
  },
  singleToken: ({ columns }) => (kernels.fitsRow(columns) ? singleToken : undefined),
};
