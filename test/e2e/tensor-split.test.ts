import { describe, expect, it } from 'vitest';
import { isFull } from '../support/run-size.js';
import { KILLS, runStreams, STREAMS, writeSplitModel } from '../support/split-run.js';

const model = writeSplitModel();
const split = { device: 'host', threads: 2, split: 'tensor', gpus: [0, 1] } as const;

describe('a model in shards over two devices', () => {
  it(`answers ${STREAMS} streams of every kind alike, undisturbed and with ${KILLS} kills of the executor`, async () => {
    const undisturbed = await runStreams(model, split, 0);
    const killed = await runStreams(model, split, KILLS);
    console.log(
      `${undisturbed.draftTokens} draftTokens, ${undisturbed.acceptedDraftTokens} of them right; ` +
        `${killed.kills} kills, ${killed.inStep} in a step`,
    );
    expect(killed.all).toEqual(undisturbed.all);
    expect(killed.kills).toBe(KILLS);
    expect(undisturbed.acceptedDraftTokens).toBeGreaterThan(0);
    if (!isFull) return;
    const stopped = await runStreams(model, split, 1, 'SIGSTOP');
    expect(stopped.all).toEqual(undisturbed.all);
    expect([stopped.kills, stopped.faults]).toMatchObject([1, [{}]]);
  });
});
