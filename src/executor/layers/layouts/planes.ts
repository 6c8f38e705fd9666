import * as kernels from '../../kernels/index.js';
import type { Matrix } from '../../model/matrix.js';
import type { SingleTokenProducts, WeightLayout } from './layout.js';

const typeOf = ({ type }: Matrix): kernels.PackedType => type as kernels.PackedType;

const isPlanes = ({ layout }: Matrix): boolean => layout === 'planes';

function sizesOf(type: kernels.PackedType, columns: number) {
  const row_bytes = kernels.packedRowBytes(type, columns);
  return { row_bytes, in: columns, parts: kernels.normParts(columns) };
}

const singleToken: SingleTokenProducts = {
  normalizes: ({ columns }) => kernels.canNormalize(columns),
  addsBias: false,
  add({ launch }, weight, x, y, parts) {
    const { columns, rows: out, buffer } = weight;
    const sizes = { row_bytes: kernels.packedRowBytes(typeOf(weight), columns), parts: kernels.normParts(out) };
    const values = { weight: buffer, x, y, parts, out, blocks: columns / kernels.Q8_BLOCK };
    launch(kernels.matmulSummed(typeOf(weight)), values, sizes);
  },
  multiply({ launch }, weight, input, y) {
    const { columns, rows: out, buffer } = weight;
    const values = { weight: buffer, ...input, y, out, blocks: columns / kernels.Q8_BLOCK };
    launch(kernels.matmulNormed(typeOf(weight)), values, sizesOf(typeOf(weight), columns));
  },
  gates(matrices) {
    const [gate, up] = matrices as readonly [Matrix, Matrix];
    return matrices.every(isPlanes) && gate.type === up.type && gate.rows % kernels.Q8_BLOCK === 0;
  },
  gate({ launch }, matrices, input, y) {
    const [gate, up] = matrices as readonly [Matrix, Matrix];
    const { columns, rows: ffn } = gate;
    const blocks = columns / kernels.Q8_BLOCK;
    const values = { gate: gate.buffer, up: up.buffer, ...input, y, ffn, blocks };
    const sizes = { ...sizesOf(typeOf(gate), columns), ffn_blocks: ffn / kernels.Q8_BLOCK };
    launch(kernels.gateUpNormed(typeOf(gate)), values, sizes);
  },
};

/** Blocks of quantized weights in planes that lanes read by 16 bytes: GPUs other than Hopper. */
export const planesLayout: WeightLayout = {
  inputEncoding: () => 'q8',
  accumulates: () => true,
  multiply({ launch }, weight, x, rows, { y, stride, accumulate = false }) {
    const { buffer, rows: out, columns } = weight;
    const values = { weight: buffer, x, y, out, y_stride: stride, accumulate: Number(accumulate) };
    kernels.launchMatmulPacked(launch, typeOf(weight), columns, rows, values);
  },
  multiplyExperts({ launch }, weight, x, sent, { y, stride }) {
    const { buffer, rows: out, columns } = weight;
    const values = { weight: buffer, x, y, runs: sent.table, out, y_stride: stride };
    kernels.launchMatmulPackedExperts(launch, typeOf(weight), columns, sent, values);
  },
  gated: undefined,
  singleToken: () => singleToken,
};
