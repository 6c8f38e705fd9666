import { bufferFrom, type Device, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { Matrix } from '../model/matrix.js';
import { fileLayout } from './layouts/file.js';
import type { ActivationEncoding, LaunchSite, SentRows, Target } from './layouts/index.js';

/** Sizes of the rows that cross between device and host. */
export interface HostExpertSizes {
  /** Rows of all experts together. */
  readonly places: number;
  /** Runs of rows, one an expert. */
  readonly runs: number;
  /** The most columns of an input, and of all products of it side by side. */
  readonly inputs: number;
  readonly outputs: number;
}

/**
 * Products of experts whose matrices stay in the host's memory, where the model's file is mapped. Their inputs, already in the encoding that
 * the matrices take, and the runs of rows cross through pinned memory, and so do the products: everything between them is
 * computed on the device, so that only the products depend on where the matrices are. The host reads the matrices of experts that have
 * rows, and no others.
 */
export class HostExperts {
  private readonly x: DeviceBuffer;
  private readonly y: DeviceBuffer;
  private readonly runs: DeviceBuffer;

  private readonly device: Device;

  constructor(
    memory: DeviceScope,
    private readonly plan: LaunchPlanRecorder,
    { places, runs, inputs, outputs }: HostExpertSizes,
  ) {
    this.device = memory.device;
    this.x = memory.allocatePinned('f32', places * inputs);
    this.y = memory.allocatePinned('f32', places * outputs);
    this.runs = memory.allocatePinned('i32', runs * kernels.RUN_WORDS);
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
    this.plan.launch(kernels.copyWords, { x: words(sent.table, runWords), y: this.runs, count: runWords });
    this.copyRows(x, this.x, placed, rowBytes / Int32Array.BYTES_PER_ELEMENT);
    let column = 0;
    for (const matrix of matrices) {
      this.product(matrix, { ...sent, table: this.runs }, { y: bufferFrom(this.y, column), stride: columns });
      column += matrix.rows;
    }
    this.copyRows(this.y, target.y, placed, columns);
  }

  /** In the order of the GPU where it has one for such weights: {@link keepsNumerics}. */
  private product(matrix: Matrix, sent: SentRows, target: Target): void {
    const launch: LaunchSite['launch'] = (...launched) => this.plan.launchOnHost(...launched);
    if (this.encodingOf(matrix) !== 'q8') {
      fileLayout.multiplyExperts({ launch, columns: undefined }, matrix, this.x, sent, target);
      return;
    }
    const x = { ...this.x, dtype: 'u8', elements: 4 * this.x.elements } as const;
    if (!keepsNumerics(this.device, matrix)) {
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
  private copyRows(x: DeviceBuffer, y: DeviceBuffer, { times = 1, ...rows }: StepCount, rowWords: number): void {
    const count = rows.max * rowWords;
    const dims = { count: { ...rows, max: count, times: times * rowWords } };
    this.plan.launch(kernels.copyWords, { x: words(x, count), y: words(y, count), count }, dims);
  }
}

/**
 * True if the host computes the bits of products that the GPU would: sums of exact whole numbers, added in the order of its waves. Other
 * weights are multiplied in another order on the host, and on Hopper by matrix instructions, as 16-bit floats.
 */
export function keepsNumerics(
  { deviceClass }: Device,
  weight: Pick<Matrix, 'type' | 'columns'>,
): weight is { type: kernels.PackedType; columns: number } {
  const { type, columns } = weight;
  return deviceClass === 'portable' && kernels.isBlockType(type) && kernels.canPack(type, columns);
}

/** Memory as words, whatever they hold. */
const words = ({ address }: DeviceBuffer, elements: number): DeviceBuffer => ({ address, dtype: 'i32', elements });
