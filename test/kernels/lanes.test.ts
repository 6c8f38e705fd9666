import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAddon } from '../../src/executor/device/addon.js';
import { defineKernel, output } from '../../src/executor/device/contract.js';
import { Device } from '../../src/executor/device/device.js';
import { exact } from '../../src/executor/device/tolerance.js';
import { packageRoot } from '../../src/shared/package.js';
import { launch } from './support/launch.js';

const contractOf = (name: string) =>
  defineKernel({
    name,
    source: 'faulty.hip',
    summary: 'a kernel with a mistake',
    arguments: [output('out', 'f32', '256')],
    grid: [{ of: '1' }],
    tolerance: exact('there is none'),
  });

describe('the lanes target', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-lanes-'));

  beforeAll(() => {
    const kernels = path.join(folder, 'kernels');
    cpSync(path.join(packageRoot, 'kernels', 'forge'), path.join(kernels, 'forge'), { recursive: true });
    cpSync(path.join(packageRoot, 'test', 'kernels', 'support', 'faulty.hip'), path.join(kernels, 'faulty.hip'));
    const build = path.join(packageRoot, 'tools', 'build-kernels.mjs');
    const options = ['--target', 'lanes', '--only', 'faulty.hip', '--kernels', kernels, '--output', folder];
    execFileSync(process.execPath, [build, ...options], { stdio: 'pipe' });
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  describe.each([32, 64])('with waves of %i', (wave) => {
    let device: Device;
    beforeAll(() => {
      const library = path.join(folder, `lanes${wave}`, 'lanes.so');
      device = new Device(new (loadAddon().Device)({ library, threads: 1 }), 'host', 'lanes');
    });
    /** Launches three times, so that each lane order is taken. */
    const run = async (name: string) => {
      for (let order = 0; order < 2; order++) await launch(device, contractOf(name), {});
      return (await launch(device, contractOf(name), {})).out as Float32Array;
    };

    it('says how large waves and blocks are', () => {
      expect([device.wave, device.block]).toEqual([wave, 256]);
    });

    it('runs a kernel without mistakes', async () => {
      expect([...(await run('faultless'))]).toEqual(Array.from({ length: 256 }, (_, i) => (i + 1) % 256));
    });

    it.each([
      ['no_barrier', /LDS race: thread \d+ (reads|writes)/],
      ['no_barrier_before_reuse', /LDS race: thread \d+ (reads|writes)/],
      ['two_writers', /LDS race: thread \d+ writes/],
      ['add_beside_write', /LDS race: thread \d+ (adds to|writes)/],
      ['leaves_before_barrier', /a barrier that 100 of 256 threads reach/],
      ['two_barriers', /a barrier that 256 of 256 threads reach, or at different places/],
      ['half_a_wave_shuffles', /a shuffle that \d+ of \d+ lanes reach/],
      ['shuffle_masks_differ', /with different masks/],
      ['shuffle_leaves_the_wave', /a shuffle/],
      ['half_a_wave_multiplies', /a product of tiles that \d+ of \d+ lanes reach/],
      ['multiplies_at_two_places', /a product of tiles that \d+ of \d+ lanes reach, or reach at different places/],
      ['past_the_end', /LDS index 255 outside 0 .. 254/],
      ['too_much', /more than (48|64) KiB of LDS/],
    ])('finds the mistake of %s', async (name, message) => {
      await expect(run(name)).rejects.toThrow(message);
    });

    it('runs on after a mistake', async () => {
      await expect(run('no_barrier')).rejects.toThrow('no_barrier: LDS race');
      await expect(run('faultless')).resolves.toHaveLength(256);
    });

    it('fills LDS with NaN', async () => {
      expect((await run('reads_unwritten')).every(Number.isNaN)).toBe(true);
    });
  });
});
