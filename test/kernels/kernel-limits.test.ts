import { describe, expect, it } from 'vitest';
import { complaints, type Manifest, occupancy } from '../../tools/kernel-limits.mjs';

const manifest = (target: string, changes: object): Manifest => ({
  target,
  compiler: 'a compiler',
  files: [
    {
      kernels: [
        {
          ...{ name: 'matmul_f32', wave: target.startsWith('gfx9') ? 64 : 32, vgprs: 32, sgprs: 20 },
          ...{ lds: 0, scratch: 0, vgprSpills: 0, ...changes },
        },
      ],
    },
  ],
});

describe('the static check of code objects', () => {
  it.each(['gfx90a', 'gfx942', 'gfx1100', 'gfx1101', 'gfx1102', 'gfx1200', 'gfx1201'])(
    'passes what fits %s',
    (target) => {
      expect(complaints(manifest(target, {}))).toEqual([]);
      expect(complaints(manifest(target, { lds: 65_536 }))).toEqual([]);
    },
  );

  it.each([
    ['gfx942', { wave: 32 }, 'waves of 32'],
    ['gfx1100', { wave: 64 }, 'waves of 64'],
    ['gfx1100', { lds: 65_537 }, '65537 bytes of LDS'],
    ['gfx942', { vgprSpills: 1 }, 'spills 1'],
    ['gfx1102', { name: 'attention_tile_f16_d64', vgprSpills: 3 }, 'spills 3'],
    ['gfx1102', { name: 'gate_up_swiglu_f32', vgprSpills: 3 }, 'spills 3'],
    ['gfx942', { vgprs: 513 }, 'no block of it fits'],
  ])('on %s finds %o', (target, changes, complaint) => {
    expect(complaints(manifest(target, changes)).join()).toContain(complaint);
  });

  it('lets a kernel without an inner product spill', () => {
    expect(complaints(manifest('gfx1100', { name: 'sample', vgprSpills: 2 }))).toEqual([]);
  });
});

describe('static occupancy', () => {
  // By registers: clang 19's own word (-Rpass-analysis=kernel-resource-usage), down to whole blocks.
  it.each([
    ['gfx1100', 96, 0, 16, 'waves'],
    ['gfx1100', 97, 0, 12, 'registers'],
    ['gfx1100', 256, 0, 4, 'registers'],
    ['gfx1102', 64, 0, 16, 'waves'],
    ['gfx1102', 65, 0, 12, 'registers'],
    ['gfx942', 64, 0, 8, 'waves'],
    ['gfx942', 65, 0, 7, 'registers'],
    ['gfx942', 324, 0, 1, 'registers'],
    ['gfx942', 32, 20_480, 3, 'LDS'],
    ['gfx1100', 32, 43_008, 6, 'LDS'],
  ])('on %s with %i registers and %i bytes of LDS is %i waves a SIMD', (target, vgprs, lds, waves, bound) => {
    expect(occupancy(target, { vgprs, lds })).toMatchObject({ waves, bound });
  });
});
