import { bufferFrom, type Device, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { Matrix } from '../model/matrix.js';
import type { MatrixRef } from '../model/tensors.js';
import { fileLayout } from './layouts/file.js';
import type { ActivationEncoding, LaunchSite, SentRows, Target } from './layouts/index.js';
import { planesLayout } from './layouts/planes.js';
import { launchWithin } from './products.js';
import { type PackableMatrix, StreamedMatrices } from './streamed-matrices.js';

/** Sizes of the rows that cross between device and host. */
export interface HostExpertSizes {
  /** Rows of all experts together. */
  readonly places: number;
  /** Runs of rows, one an expert. */
  readonly runs: number;
  /** The most columns of an input, and of all products of it side by side. */
  readonly inputs: number;
  readonly outputs: number;
  /** The most rows of a step. */
  readonly stepRows: number;
}

/**
 * Rows that an expert has on average from which on its matrices are brought to the GPU. By the prompts of qwen3-30b-a3b in
 * docs/evidence/gpu-speed.md (H200, 16 threads) both ways take as long at about nine.
 */
const STREAMED_ROWS = 8;

/** Rows of a step from which on the matrices of experts are brought to the GPU. @param used experts of a row */
export const streamedFrom = (experts: number, used: number): number => Math.ceil((STREAMED_ROWS * experts) / used);

/**
 * Products of experts whose matrices stay in the host's memory, where the model's file is mapped. Their inputs, already in the encoding that
 * the matrices take, and the runs of rows cross through pinned memory, and so do the products: everything between them is
 * computed on the device, so that only the products depend on where the matrices are. The host reads the matrices of experts that have
 * rows, and no others. In steps of many rows the matrices are brought to the GPU, whose products have the same bits.
 */
export class HostExperts {
  private readonly x: DeviceBuffer;
  private readonly y: DeviceBuffer;
  private readonly runs: DeviceBuffer;
  /** Undefined where no matrix is one that a GPU multiplies with the host's bits, or no step has so many rows. */
  private readonly streamed: StreamedMatrices | undefined;

  private readonly device: Device;

  constructor(
    memory: DeviceScope,
    private readonly plan: LaunchPlanRecorder,
    private readonly sizes: HostExpertSizes,
    streamed: readonly MatrixRef[],
  ) {
    const { places, runs, inputs, outputs } = sizes;
    this.device = memory.device;
    this.x = memory.allocatePinned('f32', places * inputs);
    this.y = memory.allocatePinned('f32', places * outputs);
    this.runs = memory.allocatePinned('i32', runs * kernels.RUN_WORDS);
    const packable = streamed.filter(isPackable);
    if (packable.length > 0) this.streamed = new StreamedMatrices(memory, plan, packable);
  }

  /** Encoding in which a matrix takes its input. */
  encodingOf(weight: Matrix): ActivationEncoding {
    return fileLayout.inputEncoding(weight);
  }

  /**
   * target = the products side by side, of each row's expert.
   *
   * @param x of the rows, in {@link encodingOf} of all matrices
   * @param placed number of the rows, `used` for each of the step's
   */
  multiply(matrices: readonly Matrix[], x: DeviceBuffer, placed: StepCount, sent: SentRows, target: Target): void {
    const [first] = matrices as readonly [Matrix];
    const columns = matrices.reduce((sum, { rows }) => sum + rows, 0);
    if (columns !== target.stride) throw new RangeError(`rows of ${target.stride} elements for ${columns} products`);
    const rowBytes =
      this.encodingOf(first) === 'q8'
        ? (first.columns / kernels.Q8_BLOCK) * kernels.Q8_BLOCK_BYTES
        : first.columns * Float32Array.BYTES_PER_ELEMENT;
    const runWords = this.runs.elements;
    const [few, many] = this.conditions(matrices, sent);
    const runs = { x: words(sent.table, runWords), y: this.runs, count: runWords };
    this.plan.launch(kernels.copyWords, runs, {}, few);
    this.copyRows(x, this.x, placed, rowBytes / Int32Array.BYTES_PER_ELEMENT, few);
    let column = 0;
    for (const matrix of matrices) {
      this.product(matrix, { ...sent, table: this.runs }, { y: bufferFrom(this.y, column), stride: columns }, few);
      column += matrix.rows;
    }
    this.copyRows(this.y, target.y, placed, columns, few);
    if (many === undefined) return;
    const site = { launch: launchWithin(this.plan, many), columns: undefined };
    column = 0;
    for (const matrix of matrices as readonly PackableMatrix[]) {
      const brought = this.streamed?.bring(matrix, many) as Matrix;
      planesLayout.multiplyExperts(site, brought, x, sent, { y: bufferFrom(target.y, column), stride: columns });
      column += matrix.rows;
    }
  }

  /** Steps in which the host multiplies, undefined: all; and those in which the GPU does, undefined: none. */
  private conditions(
    matrices: readonly Matrix[],
    { experts, rows, runs }: SentRows,
  ): readonly [few?: LaunchCondition, many?: LaunchCondition] {
    const atLeast = streamedFrom(experts, runs.times ?? 1);
    if (atLeast > this.sizes.stepRows || !matrices.every(isPackable)) return [];
    return [
      { count: rows, atMost: atLeast - 1 },
      { count: rows, atLeast },
    ];
  }

  /** In the order of the GPU where it has one for such weights. */
  private product(matrix: Matrix, sent: SentRows, target: Target, when: LaunchCondition | undefined): void {
    const launch: LaunchSite['launch'] = (contract, values, sizes) =>
      this.plan.launchOnHost(contract, values, sizes, { when });
    if (this.encodingOf(matrix) !== 'q8') {
      fileLayout.multiplyExperts({ launch, columns: undefined }, matrix, this.x, sent, target);
      return;
    }
    const x = { ...this.x, dtype: 'u8', elements: 4 * this.x.elements } as const;
    if (!isPackable(matrix)) {
      fileLayout.multiplyExperts({ launch, columns: undefined }, matrix, x, sent, target);
      return;
    }
    const { type, buffer: weight, rows: out, columns } = matrix;
    const blocks = columns / kernels.blockFormat(type).blockElements;
    const { experts, places, runs, rows } = sent;
    const values = { weight, x, y: target.y, runs: sent.table, out, blocks, y_stride: target.stride };
    const lanes = this.device.wave;
    launch(kernels.matmulLanesExperts(type), { ...values, lanes }, { experts, places, runs, rows });
  }

  /** @param rowWords words of a row */
  private copyRows(
    x: DeviceBuffer,
    y: DeviceBuffer,
    { times = 1, ...rows }: StepCount,
    rowWords: number,
    when: LaunchCondition | undefined,
  ): void {
    const count = rows.max * rowWords;
    const dims = { count: { ...rows, max: count, times: times * rowWords } };
    this.plan.launch(kernels.copyWords, { x: words(x, count), y: words(y, count), count }, dims, when);
  }
}

/**
 * True if the host computes the bits of products that the GPU would if it had the matrix: sums of exact whole numbers, added in the order of
 * its waves. Other weights are multiplied in another order on the host, and by Hopper's matrix instructions as 16-bit floats.
 */
export const keepsNumerics = ({ deviceClass }: Device, weight: Pick<Matrix, 'type' | 'columns'>): boolean =>
  deviceClass === 'portable' && isPackable(weight);

/** True if kernels of GPUs multiply the matrix with the bits of {@link kernels.matmulLanesExperts}. */
function isPackable<M extends Pick<Matrix, 'type' | 'columns'>>(
  matrix: M,
): matrix is M & { readonly type: kernels.PackedType } {
  return kernels.isBlockType(matrix.type) && kernels.canPack(matrix.type, matrix.columns);
}

/** Memory as words, whatever they hold. */
const words = ({ address }: DeviceBuffer, elements: number): DeviceBuffer => ({ address, dtype: 'i32', elements });
