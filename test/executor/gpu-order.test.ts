import { describe, expect, it } from 'vitest';
import { gpuCandidates } from '../../src/executor/load/open-device.js';

const PLATFORMS = ['hip', 'cuda'] as const;
type Found = Readonly<Record<(typeof PLATFORMS)[number], readonly string[]>>;

/** Architectures in the order in which they are tried. */
function order(found: Found): readonly string[] {
  const gpus = gpuCandidates(PLATFORMS, (platform) => found[platform].map((architecture) => ({ architecture })));
  return [...gpus].map(({ architecture }) => architecture);
}

describe('GPUs are tried', () => {
  it.each<[Found, readonly string[]]>([
    [{ hip: ['gfx1036', 'gfx1100'], cuda: [] }, ['gfx1100', 'gfx1036']],
    [{ hip: ['gfx1151', 'gfx90c', 'gfx1201', 'gfx942'], cuda: [] }, ['gfx1201', 'gfx942', 'gfx1151', 'gfx90c']],
    // Navi 24 is a card.
    [{ hip: ['gfx1034', 'gfx1100'], cuda: [] }, ['gfx1034', 'gfx1100']],
    [{ hip: ['gfx1036'], cuda: ['sm_90', 'sm_80'] }, ['sm_90', 'sm_80', 'gfx1036']],
    [{ hip: ['gfx1100'], cuda: ['sm_90'] }, ['gfx1100', 'sm_90']],
    [{ hip: [], cuda: [] }, []],
  ])('of %j cards before processors’ own: %j', (found, expected) => {
    expect(order(found)).toEqual(expected);
  });

  it('without loading the driver of a platform whose cards are not needed', () => {
    const loaded: string[] = [];
    const gpus = gpuCandidates(PLATFORMS, (platform) => {
      loaded.push(platform);
      return platform === 'hip' ? [{ architecture: 'gfx1036' }, { architecture: 'gfx1100' }] : [];
    });
    expect(gpus.next().value).toEqual({ architecture: 'gfx1100' });
    expect(loaded).toEqual(['hip']);
    expect(gpus.next().value).toEqual({ architecture: 'gfx1036' });
    expect(loaded).toEqual(['hip', 'cuda']);
  });
});
