import * as kernels from '../../kernels/index.js';
import type { WeightLayout } from './layout.js';

/** Rows as the file has them, multiplied without matrix units: all weights on the host, and on GPUs those that fit no other layout. */
export const fileLayout: WeightLayout = {
  inputEncoding: ({ type }) => (kernels.isBlockType(type) ? 'q8' : 'f32'),
  accumulates: () => false,
  multiply({ launch }, { type, buffer: weight, rows: out, columns }, x, { count, present: tokens }, target) {
    const shared = { weight, x, y: target.y, out, y_stride: target.stride, tokens };
    if (kernels.isBlockType(type)) {
      const blocks = columns / kernels.blockFormat(type).blockElements;
      launch(kernels.matmulQuantized(type), { ...shared, blocks }, { rows: count });
    } else {
      launch(kernels.matmul(type), { ...shared, in: columns, x_stride: columns }, { rows: count });
    }
  },
  multiplyExperts({ launch }, { type, buffer: weight, rows: out, columns }, x, sent, { y, stride }) {
    const { experts, places, runs, rows } = sent;
    const dims = { experts, places, runs, rows };
    const shared = { weight, x, y, runs: sent.table, out, y_stride: stride };
    if (kernels.isBlockType(type)) {
      const blocks = columns / kernels.blockFormat(type).blockElements;
      launch(kernels.matmulQuantizedExperts(type), { ...shared, blocks }, dims);
    } else {
      launch(kernels.matmulExperts(type), { ...shared, in: columns }, dims);
    }
  },
  gated: undefined,
  singleToken: () => undefined,
};
