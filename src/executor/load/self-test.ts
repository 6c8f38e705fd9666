import { RocmForgeError } from '../../shared/errors.js';
import type { Argument, KernelContract } from '../device/contract.js';
import { type Device, type DeviceBuffer, DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import { type LaunchArguments, LaunchPlanRecorder } from '../kernels/launch-plan.js';

/** Expected output of a kernel. */
interface Expectation {
  readonly kernel: KernelContract;
  readonly sizes: Readonly<Record<string, number>>;
  readonly output: DeviceBuffer;
  /** In float64, and what each element's rounding errors scale with. */
  readonly values: Float64Array;
  readonly magnitudes: Float64Array;
}

// More than a block's 256 threads and no multiple of it, where the kernel allows.
const ROWS = 3;
const HIDDEN = 1000;
const FFN = 333;
const INNER = 512;
const OUT = 40;

/**
 * Runs kernels of the forward pass, one of each kind of arithmetic, on known numbers, and holds them against what
 * JavaScript computes: a device or a build that computes wrongly must not serve.
 *
 * @throws RocmForgeError `KERNELS_INVALID` naming the kernel and the element
 */
export async function selfTest(device: Device): Promise<void> {
  const test = new SelfTest(device);
  try {
    test.rmsNorm();
    test.residualAdd();
    test.swiglu();
    test.matmul();
    if (device.deviceClass === 'portable') test.matmulTile();
    if (device.deviceClass === 'hopper') test.linear();
    else test.matmulQuantized();
    await test.run();
  } finally {
    test.release();
  }
}

class SelfTest {
  private readonly memory: DeviceScope;
  private readonly plan: LaunchPlanRecorder;
  private readonly expectations: Expectation[] = [];
  private readonly rows: DeviceBuffer;
  private seed = 1;

  constructor(private readonly device: Device) {
    this.memory = new DeviceScope(device);
    this.plan = new LaunchPlanRecorder(device, 0);
    this.rows = this.memory.upload(Int32Array.of(ROWS));
  }

  release(): void {
    this.memory.release();
  }

  /** A reduction over a row. */
  rmsNorm(): void {
    const [x, weight] = [this.floats(ROWS * HIDDEN), this.floats(HIDDEN)];
    const eps = Math.fround(1e-5);
    const values = new Float64Array(ROWS * HIDDEN);
    for (let row = 0; row < ROWS; row++) {
      const elements = x.subarray(row * HIDDEN, (row + 1) * HIDDEN);
      const mean = elements.reduce((sum, value) => sum + value * value, 0) / HIDDEN;
      elements.forEach((value, i) => {
        values[row * HIDDEN + i] = (value * (weight[i] as number)) / Math.sqrt(mean + eps);
      });
    }
    const y = this.memory.allocate('f32', values.length);
    const bound = { x: this.memory.upload(x), weight: this.memory.upload(weight), y, hidden: HIDDEN, eps };
    this.launch(kernels.rmsNorm, bound, { rows: ROWS }, y, values);
  }

  /** Memory in and out. */
  residualAdd(): void {
    const [x, y] = [this.floats(ROWS * HIDDEN), this.floats(ROWS * HIDDEN)];
    const values = Float64Array.from(x, (value, i) => Math.fround(value + (y[i] as number)));
    const sum = this.memory.upload(x);
    const bound = { x: sum, y: this.memory.upload(y), hidden: HIDDEN };
    this.launch(kernels.residualAdd, bound, { rows: ROWS }, sum, values);
  }

  /** e^x and a division. */
  swiglu(): void {
    const gateUp = this.floats(ROWS * 2 * FFN).map((value) => 8 * value);
    const values = Float64Array.from({ length: ROWS * FFN }, (_, i) => {
      const at = Math.floor(i / FFN) * 2 * FFN + (i % FFN);
      const gate = gateUp[at] as number;
      return (gate / (1 + Math.exp(-gate))) * (gateUp[at + FFN] as number);
    });
    const y = this.memory.allocate('f32', values.length);
    this.launch(kernels.swiglu, { gate_up: this.memory.upload(gateUp), y, ffn: FFN }, { rows: ROWS }, y, values);
  }

  /** 16-bit weights by f32. */
  matmul(): void {
    const weight = this.integers(OUT * INNER, 8);
    const x = this.floats(ROWS * INNER);
    const y = this.memory.allocate('f32', ROWS * OUT);
    const shapes = { out: OUT, in: INNER, x_stride: INNER, y_stride: OUT };
    const bound = { weight: this.halves(weight), x: this.memory.upload(x), y, tokens: this.rows, ...shapes };
    const { values, magnitudes } = product(weight, x);
    this.launch(kernels.matmul('f16'), bound, { rows: ROWS }, y, values, magnitudes);
  }

  /** Matrix units. */
  matmulTile(): void {
    const [weight, x] = [this.integers(OUT * INNER, 8), this.integers(ROWS * INNER, 8)];
    const y = this.memory.allocate('f32', ROWS * OUT);
    const shapes = { out: OUT, in: INNER, y_stride: OUT, accumulate: 0 };
    const bound = { weight: this.halves(weight), x: this.halves(x), y, tokens: this.rows, ...shapes };
    const { values, magnitudes } = product(weight, x);
    this.launch(kernels.matmulTile('f16', 'few'), bound, { rows: ROWS }, y, values, magnitudes);
  }

  /** Hopper's matrix units: packed weights, columns, and the forms for few rows and for many. */
  linear(): void {
    const [weight, x] = [this.integers(OUT * INNER, 8), this.integers(ROWS * INNER, 8)];
    const [tiles, chunks] = [kernels.tilesOf(OUT), kernels.chunksOf(INNER)];
    const target = this.memory.allocate('u8', kernels.fragmentBytes('f16', OUT, INNER));
    const overflow = this.memory.upload(Int32Array.of(0));
    const packed = { source: this.halves(weight), target, overflow, out: OUT, in: INNER };
    this.plan.launch(kernels.packFragments('f16'), packed, { tiles, chunks });
    const y_rows = kernels.columnRows(ROWS);
    const columns = this.memory.allocate('f16', chunks * y_rows * kernels.FRAGMENT_CHUNK);
    const saturated = this.memory.upload(Int32Array.of(0));
    const converted = { x: this.memory.upload(x), y: columns, saturated, in: INNER, y_rows };
    this.plan.launch(kernels.convertColumns('f16'), converted, { rows: ROWS, chunks });
    const { values, magnitudes } = product(weight, x);
    for (const form of ['few', 'wide16', 'many'] as const) {
      const y = this.memory.allocate('f32', ROWS * OUT);
      const shapes = { tiles, out: OUT, in: INNER, x_rows: y_rows, y_stride: OUT, accumulate: 0 };
      const bound = { weight: target, x: columns, y, tokens: this.rows, ...shapes };
      this.launch(kernels.linear('f16', form), bound, { rows: ROWS, chunks }, y, values, magnitudes);
    }
  }

  /** Quantization of activations, and integer dot products of blocks. */
  matmulQuantized(): void {
    const weight = this.integers(OUT * INNER, 127);
    // One of the largest in each block: the scale is 1 then, and nothing is rounded.
    const x = this.integers(ROWS * INNER, 126).map((value, i) => (i % kernels.Q8_BLOCK === 5 ? 127 : value));
    const blocks = INNER / kernels.Q8_BLOCK;
    const { blockBytes } = kernels.blockFormat('q8_0');
    const packed = new Uint8Array(OUT * blocks * blockBytes);
    for (let b = 0; b < OUT * blocks; b++) {
      new DataView(packed.buffer).setUint16(b * blockBytes, half(1), true);
      const quants = weight.subarray(b * kernels.Q8_BLOCK, (b + 1) * kernels.Q8_BLOCK);
      packed.set(new Uint8Array(Int8Array.from(quants).buffer), b * blockBytes + 2);
    }
    const quantized = this.memory.allocate('u8', ROWS * blocks * kernels.Q8_BLOCK_BYTES);
    this.plan.launch(kernels.quantizeQ8, { x: this.memory.upload(x), y: quantized, in: INNER }, { rows: ROWS, blocks });
    const y = this.memory.allocate('f32', ROWS * OUT);
    const shapes = { out: OUT, blocks, y_stride: OUT };
    const bound = { weight: this.bytes(packed), x: quantized, y, tokens: this.rows, ...shapes };
    const { values, magnitudes } = product(weight, x);
    this.launch(kernels.matmulQuantized('q8_0'), bound, { rows: ROWS }, y, values, magnitudes);
  }

  /** Runs everything and compares. */
  async run(): Promise<void> {
    await this.plan.run();
    for (const { kernel, sizes, output, values, magnitudes } of this.expectations) {
      const actual = this.device.readF32(output);
      const wrong = actual.findIndex((value, i) => {
        const bound = kernel.tolerance.bound(sizes, magnitudes[i] as number);
        return !(Math.abs(value - (values[i] as number)) <= bound);
      });
      if (wrong < 0) continue;
      throw new RocmForgeError(
        'KERNELS_INVALID',
        `the self-test of ${kernel.name} on ${this.device.description} gives ${actual[wrong]} for element ${wrong}, not ` +
          `${values[wrong]}: kernels or device are broken; rebuild the kernels or try another device`,
      );
    }
  }

  private launch<const A extends readonly Argument[]>(
    kernel: KernelContract<A>,
    bound: LaunchArguments<A>,
    dimensions: Readonly<Record<string, number>>,
    output: DeviceBuffer,
    values: Float64Array,
    magnitudes: Float64Array = values.map(Math.abs),
  ): void {
    this.plan.launch(kernel, bound, dimensions);
    const scalars = Object.entries(bound).filter((entry): entry is [string, number] => typeof entry[1] === 'number');
    const sizes = { ...dimensions, ...Object.fromEntries(scalars) };
    this.expectations.push({ kernel, sizes, output, values, magnitudes });
  }

  /** The same numbers each time, uniform in [-1, 1). */
  private floats(count: number): Float32Array {
    return Float32Array.from({ length: count }, () => {
      this.seed = (Math.imul(this.seed, 1664525) + 1013904223) >>> 0;
      return this.seed / 2 ** 31 - 1;
    });
  }

  /** From -most to most. */
  private integers(count: number, most: number): Float32Array {
    return this.floats(count).map((value) => Math.round(value * most));
  }

  private bytes(content: Uint8Array): DeviceBuffer {
    const buffer = this.memory.allocate('u8', content.length);
    this.device.native.write(buffer.address, content);
    return buffer;
  }

  private halves(values: Float32Array): DeviceBuffer {
    const buffer = this.memory.allocate('f16', values.length);
    this.device.native.write(buffer.address, new Uint8Array(Uint16Array.from(values, half).buffer));
    return buffer;
  }
}

/** y[t][n] = sum_k weight[n][k] * x[t][k], and the sums of absolute products. */
function product(weight: Float32Array, x: Float32Array): { values: Float64Array; magnitudes: Float64Array } {
  const values = new Float64Array(ROWS * OUT);
  const magnitudes = new Float64Array(ROWS * OUT);
  for (let i = 0; i < ROWS * OUT; i++) {
    const [t, n] = [Math.floor(i / OUT), i % OUT];
    let [sum, size] = [0, 0];
    for (let k = 0; k < INNER; k++) {
      const term = (weight[n * INNER + k] as number) * (x[t * INNER + k] as number);
      sum += term;
      size += Math.abs(term);
    }
    values[i] = sum;
    magnitudes[i] = size;
  }
  return { values, magnitudes };
}

/** The bits of a small whole number as f16, which holds it. */
function half(value: number): number {
  if (value === 0) return 0;
  const exponent = Math.floor(Math.log2(Math.abs(value)));
  const fraction = (Math.abs(value) / 2 ** exponent - 1) * 1024;
  return (value < 0 ? 0x8000 : 0) | ((exponent + 15) << 10) | fraction;
}
