import { type GpuPlatform, loadAddon } from '../../executor/device/addon.js';
import { type Device, DeviceScope } from '../../executor/device/device.js';
import * as kernels from '../../executor/kernels/index.js';
import type { LaunchPlanRecorder } from '../../executor/kernels/launch-plan.js';
import { Products } from '../../executor/layers/products.js';
import type { Matrix } from '../../executor/model/matrix.js';
import { COUNT_TOKENS, STEP_COUNTS } from '../../executor/model/step-counts.js';
import { RocmForgeError } from '../../shared/errors.js';
import { timePlan } from './plan-time.js';

/** A product of f16 weights, ours and the vendor's. */
export interface ProductTimes {
  readonly product: string;
  readonly rows: number;
  readonly kernels: string;
  readonly us: number;
  readonly vendorUs: number;
  /** The vendor's with {@link FIXED_ROWS} rows whatever their number: one way to have its bits not depend on it. */
  readonly vendorFixedUs: number | undefined;
}

/** The products of a layer of an 8B llama: `[out, in]`. */
const PRODUCTS = {
  'q, k, v': [6144, 4096],
  'attention output': [4096, 4096],
  'gate, up': [28_672, 4096],
  down: [4096, 14_336],
} as const;

export const FIXED_ROWS = 512;

/**
 * Times the products of a layer beside those of cuBLAS or rocBLAS.
 *
 * @param rows of a step
 * @param library the vendor's; empty: as the loader finds it
 * @param shapes `[out, in]` of each product
 * @throws RocmForgeError `INVALID_OPTION` on the host; Error where there is no such library
 */
export async function benchProducts(
  device: Device,
  rows: number,
  library: string,
  shapes: Readonly<Record<string, readonly [number, number]>> = PRODUCTS,
): Promise<ProductTimes[]> {
  if (device.isHost) throw new RocmForgeError('INVALID_OPTION', '--blas needs a GPU: the host has no vendor’s library');
  const times: ProductTimes[] = [];
  for (const [product, [out, columns]] of Object.entries(shapes)) {
    const memory = new DeviceScope(device);
    try {
      times.push({ product, rows, ...(await timeProduct(device, memory, rows, out, columns, library)) });
    } finally {
      memory.release();
    }
  }
  return times;
}

async function timeProduct(
  device: Device,
  memory: DeviceScope,
  rows: number,
  out: number,
  columns: number,
  library: string,
): Promise<Omit<ProductTimes, 'product' | 'rows'>> {
  const most = Math.max(rows, FIXED_ROWS);
  const isPacked = device.deviceClass === 'hopper';
  const layout = isPacked ? 'fragments' : 'file';
  const elements = isPacked ? kernels.fragmentBytes('f16', out, columns) / 2 : out * columns;
  // One memory for both: what is multiplied does not change how long it takes, but zeros would.
  // Fragments are bytes to what is launched.
  const weights = memory.allocate(isPacked ? 'u8' : 'f16', isPacked ? 2 * elements : elements);
  const pattern = Uint16Array.from({ length: elements }, (_, i) => ((i * 40_503) % 0x3c00) | ((i & 1) << 15));
  device.native.write(weights.address, new Uint8Array(pattern.buffer));
  const matrix: Matrix = { type: 'f16', layout, buffer: weights, rows: out, columns };
  const present = memory.upload(Int32Array.of(rows));
  const y = memory.allocate('f32', most * out);
  const x = memory.allocate(
    'f16',
    Math.max(most, kernels.columnRows(most)) * kernels.chunksOf(columns) * kernels.FRAGMENT_CHUNK,
  );
  device.native.write(x.address, new Uint8Array(pattern.buffer, 0, Math.min(2 * x.elements, pattern.byteLength)));
  const saturated = memory.upload(Int32Array.of(0));
  const counts = new Int32Array(STEP_COUNTS);
  counts[COUNT_TOKENS] = rows;
  const record = (plan: LaunchPlanRecorder): void => {
    const products = new Products(device, memory, plan, rows, columns, saturated);
    const input = {
      columns,
      rows: { count: { index: COUNT_TOKENS, max: rows }, present },
      forms: { f16: x },
    };
    products.multiply(matrix, input, { y, stride: out });
  };
  const ours = await timePlan(device, memory, counts, record);
  const vendor = (tokens: number): number =>
    loadAddon().timeVendorProduct(
      device.kind as GpuPlatform,
      device.gpu?.ordinal ?? 0,
      library,
      { weight: weights.address, x: x.address, y: y.address, tokens, out, in: columns },
      20,
    );
  return {
    kernels: ours.kernels,
    us: ours.us,
    vendorUs: vendor(rows),
    vendorFixedUs: rows <= FIXED_ROWS ? vendor(FIXED_ROWS) : undefined,
  };
}

/** As a table. */
export function formatProductTimes(times: readonly ProductTimes[]): string {
  const head = [
    'product (F16)',
    'rows',
    'µs',
    'vendor µs',
    'vendor/ours',
    `vendor of ${FIXED_ROWS} rows µs`,
    'kernels',
  ];
  const cells = times.map(({ product, rows, us, vendorUs, vendorFixedUs, kernels: launched }) => [
    product,
    String(rows),
    us.toFixed(1),
    vendorUs.toFixed(1),
    (vendorUs / us).toFixed(2),
    vendorFixedUs?.toFixed(1) ?? '',
    launched,
  ]);
  const widths = head.map((name, i) => Math.max(name.length, ...cells.map((row) => row[i]!.length)));
  const line = (row: readonly string[]): string =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ');
  return `${[line(head), ...cells.map(line)].join('\n')}\n`;
}
