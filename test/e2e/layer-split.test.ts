import { describe, expect, it } from 'vitest';
import { KILLS, runStreams, STREAMS, writeSplitModel } from '../support/split-run.js';

const model = writeSplitModel();

describe('a model split between layers over two devices answers as on one', () => {
  it(`${STREAMS} streams of every kind, undisturbed and with ${KILLS} kills of the executor`, async () => {
    const one = await runStreams(model, { device: 'host', threads: 2 }, 0);
    const split = { device: 'host', threads: 2, split: 'layer', gpus: [0, 1] } as const;
    const two = await runStreams(model, split, 0);
    expect(two.all).toEqual(one.all);
    const killed = await runStreams(model, { ...split, tensorSplit: [3, 1] }, KILLS);
    console.log(
      `${two.draftTokens} draftTokens, ${two.acceptedDraftTokens} of them right; ${killed.kills} kills, ${killed.inStep} in a step`,
    );
    expect(killed.all).toEqual(one.all);
    expect(killed.kills).toBe(KILLS);
    // The record of each names the device of its last launch.
    const devices = killed.faults.map(({ record }) => record?.launch?.device);
    expect(devices).toHaveLength(KILLS);
    for (const device of devices) expect([0, 1]).toContain(device);
    expect(two.acceptedDraftTokens).toBeGreaterThan(0);
  });
});
