import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { benchProducts, formatProductTimes } from '../../src/cli/bench/product-bench.js';
import { loadAddon } from '../../src/executor/device/addon.js';
import type { Device } from '../../src/executor/device/device.js';
import { DeviceScope } from '../../src/executor/device/device.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { packageRoot } from '../../src/shared/package.js';
import { decode, encode } from '../kernels/support/half.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);
const library = path.join(packageRoot, 'build', 'double', 'lib', 'librocblas.so');

describe.skipIf(missing !== undefined)('products of the vendor’s library', () => {
  let device: Device;

  beforeAll(() => {
    new HipDouble().install();
    device = openDevice({ kind: 'hip' });
  });

  it('are of the same matrices as ours', () => {
    const [tokens, out, columns] = [3, 5, 8];
    const memory = new DeviceScope(device);
    const w = encode(
      'f16',
      Float32Array.from({ length: out * columns }, (_, i) => ((i * 7) % 11) - 5),
    );
    const x = encode(
      'f16',
      Float32Array.from({ length: tokens * columns }, (_, i) => ((i * 5) % 13) - 6),
    );
    const y = memory.allocate('f32', tokens * out);
    const [weight, input] = [w, x].map((values) => {
      const { address } = memory.allocate('f16', values.length);
      device.native.write(address, new Uint8Array(values.buffer));
      return address;
    });
    const product = { weight: weight!, x: input!, y: y.address };
    // Reads wait for writes; the library multiplies on a stream of its own, which does not.
    device.readF32(y);
    const us = loadAddon().timeVendorProduct('hip', 0, library, { ...product, tokens, out, in: columns }, 2);
    expect(us).toBeGreaterThanOrEqual(0);
    const [weights, rows] = [decode('f16', w), decode('f16', x)];
    const expected = Array.from({ length: tokens * out }, (_, i) => {
      const [token, at] = [Math.floor(i / out), i % out];
      let sum = 0;
      for (let k = 0; k < columns; k++) sum += rows[token * columns + k]! * weights[at * columns + k]!;
      return sum;
    });
    expect([...device.readF32(y)]).toEqual(expected);
    memory.release();
  });

  it('stand beside ours in bench kernels --blas', async () => {
    const before = device.usedBytes;
    const times = await benchProducts(device, 2, library, { small: [32, 64] });
    expect(times).toMatchObject([{ product: 'small', rows: 2, kernels: expect.stringContaining('matmul_tile') }]);
    for (const { us, vendorUs, vendorFixedUs } of times) {
      for (const time of [us, vendorUs, vendorFixedUs]) expect(time).toBeGreaterThanOrEqual(0);
    }
    expect(formatProductTimes(times)).toMatch(/^product \(F16\).*\nsmall +2 /);
    expect(device.usedBytes).toBe(before);
  });

  it('need a library and a GPU, and say so', async () => {
    await expect(benchProducts(device, 1, '/nowhere/librocblas.so', { small: [32, 64] })).rejects.toThrow(
      /no library of matrix products: \/nowhere/,
    );
    await expect(benchProducts(device, 1, 'libdl.so.2', { small: [32, 64] })).rejects.toThrow(
      /has no rocblas_create_handle/,
    );
    await expect(benchProducts(openDevice({ kind: 'host' }), 1, '')).rejects.toThrow(/needs a GPU/);
  });
});
