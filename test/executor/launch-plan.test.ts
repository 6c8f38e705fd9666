import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { NativeDevice, NativeLaunch } from '../../src/executor/device/addon.js';
import { Device, type DeviceBuffer, type Dtype } from '../../src/executor/device/device.js';
import {
  allContracts,
  convert,
  gemm,
  matmulPacked,
  matmulTile,
  quantizeQ8,
  repack,
  residualAdd,
  rmsNorm,
  swiglu,
} from '../../src/executor/kernels/index.js';
import { LaunchPlanRecorder } from '../../src/executor/kernels/launch-plan.js';
import { packageRoot } from '../../src/shared/package.js';

/** A device that takes every kernel and launches none. */
class RecordingDevice implements Pick<NativeDevice, 'kernel' | 'createPlan' | 'properties'> {
  readonly properties = { description: 'nothing', wave: 32, block: 256 };
  readonly plans: (readonly NativeLaunch[])[] = [];

  kernel(name: string): number[] {
    return allContracts
      .find((contract) => contract.name === name)!
      .arguments.map(({ kind }) => (kind === 'buffer' ? 8 : 4));
  }

  createPlan(launches: readonly NativeLaunch[]): number {
    return this.plans.push(launches) - 1;
  }
}

const recorder = () =>
  new LaunchPlanRecorder(new Device(new RecordingDevice() as unknown as NativeDevice, 'hip', 'gfx1100'), 0);
const at = (address: number, dtype: Dtype, elements: number): DeviceBuffer => ({ address, dtype, elements });

const normOf =
  (x: DeviceBuffer, y: DeviceBuffer, hidden = 64) =>
  () =>
    recorder().launch(rmsNorm, { x, weight: at(0x9000, 'f32', hidden), y, hidden, eps: 1e-5 }, { rows: 2 });

describe('a recorded launch', () => {
  it('takes what the contract says', () => {
    expect(normOf(at(0x1000, 'f32', 128), at(0x2000, 'f32', 128))).not.toThrow();
  });

  it('is refused when a buffer is too small or of another type', () => {
    expect(normOf(at(0x1000, 'f32', 127), at(0x2000, 'f32', 128))).toThrow(
      'x [rows, hidden] needs 128 elements, has 127',
    );
    expect(normOf(at(0x1000, 'f16', 128), at(0x2000, 'f32', 128))).toThrow('x is f16, the contract says f32');
  });

  it('is refused when a buffer does not lie where the kernel loads it', () => {
    expect(normOf(at(0x1008, 'f32', 128), at(0x2000, 'f32', 128))).toThrow('x lies at 4104, not at a multiple of 16');
    expect(normOf(at(0x1000, 'f32', 128), at(0x2002, 'f32', 128))).toThrow('y lies at 8194, not at a multiple of 4');
    expect(normOf(at(0x1000, 'f32', 128), at(0x2004, 'f32', 128))).not.toThrow();
  });

  it('may share memory where the contract says so, element on element only', () => {
    expect(normOf(at(0x1000, 'f32', 128), at(0x1000, 'f32', 128))).not.toThrow();
    expect(normOf(at(0x1000, 'f32', 128), at(0x1010, 'f32', 128))).toThrow('rms_norm: x and y overlap');
    const shared = at(0x1000, 'f32', 128);
    expect(() => recorder().launch(residualAdd, { x: shared, y: shared, hidden: 64 }, { rows: 2 })).toThrow(
      'residual_add: x and y overlap',
    );
    const gate_up = at(0x1000, 'f32', 256);
    expect(() => recorder().launch(swiglu, { gate_up, y: at(0x1100, 'f32', 128), ffn: 64 }, { rows: 2 })).toThrow(
      'swiglu: gate_up and y overlap',
    );
    // One behind the other.
    expect(() => recorder().launch(swiglu, { gate_up, y: at(0x1400, 'f32', 128), ffn: 64 }, { rows: 2 })).not.toThrow();
  });

  it('is refused when sizes are no multiples of what the kernel takes', () => {
    const x = at(0x1000, 'f32', 4096);
    const y = at(0x9000, 'u8', 4096);
    expect(() => recorder().launch(quantizeQ8, { x, y, in: 64 }, { rows: 1, blocks: 2 })).not.toThrow();
    expect(() => recorder().launch(quantizeQ8, { x, y, in: 65 }, { rows: 1, blocks: 3 })).toThrow(
      'quantize_q8: in = 65 is not a multiple of 32',
    );
  });

  it('is refused when rows that lie apart overlap, and needs no more than the last row holds', () => {
    const launch = (x_stride: number, elements: number) => () =>
      recorder().launch(
        gemm('f32'),
        {
          ...{ weight: at(0x10000, 'f32', 6), x: at(0x20000, 'f32', elements), y: at(0x30000, 'f32', 6) },
          ...{ tokens: at(0x40000, 'i32', 1), out: 2, in: 3, x_stride, y_stride: 2 },
        },
        { rows: 3 },
      );
    expect(launch(5, 13)).not.toThrow();
    expect(launch(5, 12)).toThrow('x [rows, in] needs 13 elements, has 12');
    expect(launch(2, 13)).toThrow('rows of x are 2 apart and 3 long');
  });

  it('is refused when an offset does not fit in 31 bits', () => {
    const huge = (address: number, dtype: Dtype) => at(address, dtype, Number.MAX_SAFE_INTEGER);
    const tile = (out: number, inner: number) => () =>
      recorder().launch(
        matmulTile('f16', 'many'),
        {
          ...{ weight: huge(2 ** 50, 'f16'), x: huge(2 ** 40, 'f16'), y: huge(2 ** 51, 'f32') },
          ...{ tokens: at(0x40, 'i32', 1), out, in: inner, y_stride: out, accumulate: 0 },
        },
        { rows: 128 },
      );
    // A weight of 2^35 elements is fine: rows start at 64-bit offsets.
    expect(tile(2 ** 20, 2 ** 15)).not.toThrow();
    expect(tile(64, 2 ** 31)).toThrow('in = 2147483648 does not fit in 31 bits');

    const packed = (blocks: number) => () =>
      recorder().launch(
        matmulPacked('q8_0'),
        {
          ...{ weight: huge(2 ** 50, 'u8'), x: huge(2 ** 45, 'u8'), y: huge(2 ** 51, 'f32') },
          ...{ tokens: at(0x40, 'i32', 1), out: 16, blocks, y_stride: 16, accumulate: 0 },
        },
        { rows: 8, row_bytes: 64 },
      );
    expect(packed(2 ** 22)).not.toThrow();
    expect(packed(2 ** 23)).toThrow('8 * blocks * 40 = 2684354560 does not fit in 31 bits');
  });

  it('is refused when its grid is larger than drivers take', () => {
    const launch = (out: number, blocks: number) => () =>
      recorder().launch(
        repack('q8_0'),
        { source: at(2 ** 50, 'u8', Number.MAX_SAFE_INTEGER), target: at(2 ** 40, 'u8', 2 ** 45), out, blocks },
        { row_bytes: 64 },
      );
    expect(launch(2 ** 20, 2 ** 10)).not.toThrow();
    expect(launch(2 ** 20, 2 ** 11)).toThrow('is too large');
    const rows = (n: number) => () =>
      recorder().launch(
        convert('f16'),
        { x: at(2 ** 45, 'f32', 2 ** 40), y: at(2 ** 50, 'f16', 2 ** 40), in: 32 },
        { rows: { index: 0, max: n } },
      );
    expect(rows(65_535)).not.toThrow();
    expect(rows(65_536)).toThrow(
      'convert_f16: a grid of 65536 blocks in y, for rows = 65536, is too large; lower --max-step-tokens',
    );
  });

  it('quantizes a row for each of 128 heads', () => {
    const rows = { index: 0, max: 8192 * 128, times: 128 };
    const values = { x: at(2 ** 45, 'f32', 2 ** 40), y: at(2 ** 50, 'u8', 2 ** 40), in: 512 };
    expect(() => recorder().launch(quantizeQ8, values, { rows, blocks: 16 })).not.toThrow();
  });
});

describe('every contract', () => {
  it.each(allContracts.map((contract) => [contract.name, contract] as const))(
    '%s names its own arguments only',
    (_name, contract) => {
      const names = contract.arguments.map(({ name }) => name);
      const buffers = contract.arguments.filter((argument) => argument.kind === 'buffer');
      for (const name of (contract.inPlace ?? []).flat()) expect(names).toContain(name);
      for (const { stride, shape } of buffers) {
        if (stride === undefined) continue;
        expect(names).toContain(stride);
        expect(shape.length).toBe(2);
      }
      // Every name in a size is a scalar argument or a dimension of some shape.
      const sizeNames = (text: string) => text.match(/[a-z_]\w*/g) ?? [];
      const known = new Set([...names, ...buffers.flatMap(({ shape }) => shape.flatMap(sizeNames))]);
      const used = [...(contract.multiples ?? []).flat(), ...(contract.offsets32 ?? [])].flatMap(sizeNames);
      for (const name of used) expect(known).toContain(name);
    },
  );

  it('that adds floats says in which order', () => {
    const adds =
      /^(linear|matmul|router_scores|route_experts|combine_experts|experts_swiglu|experts_summed|delta_conv|delta_net|short_conv|latent_append|causal_conv|mamba_scan|gated_norm|gemm|small_gemm|gate_up|rms_norm|layer_norm|heads?_norm|head_layer_norm|groups_norm|norm_add|norm_rope|qk_norm|softmax|attention|flash|qkt|weighted|log_softmax|prompt_logprobs|sum_ranks|mix_streams|match_magnitude|sparse_geglu|pool_rows)/;
    for (const { name, order } of allContracts) expect([name, order !== undefined]).toEqual([name, adds.test(name)]);
  });
});

describe('ROCMFORGE_LOG_LAUNCHES', () => {
  const script = `
    import { openDevice } from './dist/executor/load/open-device.js';
    import { LaunchPlanRecorder, runOnce } from './dist/executor/kernels/launch-plan.js';
    import { residualAdd, rmsNorm } from './dist/executor/kernels/index.js';
    const device = openDevice({ kind: 'host' });
    const recorder = new LaunchPlanRecorder(device, 0);
    const [x, weight, y] = [128, 64, 128].map((elements) => device.upload(new Float32Array(elements)));
    recorder.launch(rmsNorm, { x, weight, y, hidden: 64, eps: 0.5 }, { rows: 2 });
    recorder.launch(residualAdd, { x, y, hidden: 64 }, { rows: 2 });
    await runOnce(device, recorder.finish());
    console.log([x, weight, y].map(({ address }) => '0x' + address.toString(16)).join());
    // Remains of a crash: lines that were buffered would be lost.
    process.kill(process.pid, 'SIGKILL');
  `;
  const run = (value: string) => {
    const command = `node --input-type=module -e "$SCRIPT" 2>&1; true`;
    const env = { ...process.env, SCRIPT: script, ROCMFORGE_LOG_LAUNCHES: value };
    return execFileSync('bash', ['-c', command], { cwd: path.resolve(packageRoot), env, encoding: 'utf8' });
  };

  it('logs each launch before it runs: kernel, grid, shapes, pointers, scalars', () => {
    const lines = run('1').trim().split('\n');
    const [x, weight, y] = lines.find((line) => line.startsWith('0x'))!.split(',');
    expect(lines.filter((line) => line.startsWith('launch '))).toEqual([
      `launch rms_norm grid=2,1,1 x=f32[2, 64]@${x} weight=f32[64]@${weight} y=f32[2, 64]@${y} hidden=64 eps=0.5`,
      `launch residual_add grid=2,1,1 x=f32[2, 64]@${x} y=f32[2, 64]@${y} hidden=64`,
    ]);
  });

  it('is silent when it is unset', () => {
    expect(run('').trim()).toMatch(/^0x\w+,0x\w+,0x\w+$/);
  });
});
