import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { readDeviceStats } from '../../src/executor/device/device-stats.js';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';

const GPU = '0000:FF:1f.7';
const folder = () => mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));

describe('how a GPU fares', () => {
  it('is not told where no file or library tells it', async () => {
    expect(readDeviceStats('hip', GPU, folder())).toEqual({});
    const { stdout } = await nvidia({ LD_LIBRARY_PATH: folder() }, '0000:00:00.0');
    expect(JSON.parse(stdout)).toEqual({});
  });

  it('on AMD is what the driver’s files say, of those there are', () => {
    const sys = folder();
    const hwmon = path.join(sys, 'bus', 'pci', 'devices', GPU.toLowerCase(), 'hwmon', 'hwmon3');
    mkdirSync(hwmon, { recursive: true });
    writeFileSync(path.join(hwmon, 'temp1_input'), '51000\n');
    expect(readDeviceStats('hip', GPU, sys)).toEqual({ temperatureC: 51 });
    const files = { temp2_input: '63000', power1_average: '211500000', freq1_input: '2304000000' };
    for (const [name, text] of Object.entries(files)) writeFileSync(path.join(hwmon, name), `${text}\n`);
    expect(readDeviceStats('hip', GPU, sys)).toEqual({ temperatureC: 63, powerW: 211.5, clockMhz: 2304 });
  });

  it.each([
    [1, 96, 68],
    [2, 104, 68],
    [3, 120, 68],
    [4, 288, 40],
    [5, 360, 104],
  ])('says that clocks are held down where the driver’s metrics of version 1.%d do', (content, bytes, at) => {
    const sys = folder();
    const device = path.join(sys, 'bus', 'pci', 'devices', GPU.toLowerCase());
    mkdirSync(device, { recursive: true });
    const metrics = Buffer.alloc(bytes);
    metrics.writeUInt16LE(bytes, 0);
    metrics.set([1, content], 2);
    const told = (status: number, length = bytes) => {
      metrics.writeUInt32LE(status, at);
      writeFileSync(path.join(device, 'gpu_metrics'), metrics.subarray(0, length));
      return readDeviceStats('hip', GPU, sys);
    };
    expect(told(0)).toEqual({ throttled: false });
    expect(told(1 << 16)).toEqual({ throttled: true });
    // A card that does not tell, a file cut off, layouts that are not known.
    expect(told(0xffff_ffff)).toEqual({});
    expect(told(1, bytes - 1)).toEqual({});
    expect(told(1, 2)).toEqual({});
    metrics.writeUInt16LE(bytes + 8, 0);
    expect(told(1)).toEqual({});
    metrics.writeUInt16LE(bytes, 0);
    metrics.set([2, 2], 2);
    expect(told(1)).toEqual({});
    metrics.set([1, 8], 2);
    expect(told(1)).toEqual({});
  });

  it('on NVIDIA is what its management library says, of what it knows', async () => {
    const library = folder();
    const source = path.join(packageRoot, 'test', 'doubles', 'nvml', 'nvml.cc');
    const output = path.join(library, 'libnvidia-ml.so.1');
    execFileSync(process.env.CXX ?? 'g++', ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', output, source]);
    const environment = { LD_LIBRARY_PATH: library };
    const { stdout } = await nvidia(environment, '0000:ff:1f.7');
    // No power: the library does not support it. Throttled: by heat; idleness alone would not count.
    expect(JSON.parse(stdout)).toEqual({ temperatureC: 71, clockMhz: 1980, throttled: true });
    expect(JSON.parse((await nvidia(environment, '0000:01:00.0')).stdout)).toEqual({});
  });

  /** A library is found by the environment that a process starts in. */
  function nvidia(environment: Readonly<Record<string, string>>, gpu: string) {
    const module = path.join(packageRoot, 'dist', 'executor', 'device', 'device-stats.js');
    const script = `const { readDeviceStats } = await import(${JSON.stringify(module)});
      console.log(JSON.stringify(readDeviceStats('cuda', ${JSON.stringify(gpu)})));`;
    return runProgram(process.execPath, ['--input-type=module', '-e', script], '', environment);
  }
});
