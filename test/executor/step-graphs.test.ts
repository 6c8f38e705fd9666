import { describe, expect, it } from 'vitest';
import type { Device } from '../../src/executor/device/device.js';
import { countsOf, GraphBuckets } from '../../src/executor/load/graph-buckets.js';
import { StepGraphs } from '../../src/executor/load/step-graphs.js';
import { RocmForgeError } from '../../src/shared/errors.js';

/** Graphs of two stages, and what was captured: the plan, and the rows. */
function start(failure?: () => Error | undefined) {
  const captured: [plan: number, counts: string][] = [];
  const capture = (plan: number, counts: Int32Array): void => {
    const error = failure?.();
    if (error !== undefined) throw error;
    captured.push([plan, counts.join()]);
  };
  const device = { native: { capture } } as unknown as Device;
  const buckets = new GraphBuckets({ maxSequences: 12 }, undefined);
  const graphs = new StepGraphs(
    [5, 6].map((plan) => ({ device, plan })),
    buckets,
  );
  const expected = buckets.all().flatMap((bucket) => [5, 6].map((plan) => [plan, countsOf(bucket).join()]));
  return { graphs, buckets, captured, expected };
}

describe('graphs of steps', () => {
  it('are captured all at once, one a bucket and stage', () => {
    const { graphs, captured, expected } = start();
    expect(graphs.isComplete).toBe(false);
    expect(graphs.captureAll()).toBeGreaterThanOrEqual(0);
    expect(captured).toEqual(expected);
    expect(graphs.isComplete).toBe(true);
  });

  it('or when a step needs one, and the others one after the other, each once', () => {
    const { graphs, buckets, captured, expected } = start();
    const bucket = buckets.of(7, 0, 'any');
    graphs.require(bucket);
    graphs.require(buckets.of(5, 0, 'any'));
    expect(captured).toEqual([5, 6].map((plan) => [plan, countsOf(bucket).join()]));
    for (let i = 0; !graphs.isComplete; i++) {
      expect(i).toBeLessThan(buckets.all().length);
      graphs.captureNext();
    }
    for (const each of buckets.all()) graphs.require(each);
    expect([...captured].sort()).toEqual([...expected].sort());
  });

  it('without memory for one, steps go on without it', () => {
    const { graphs, buckets, captured } = start(() => new RocmForgeError('OUT_OF_MEMORY', 'none is left'));
    graphs.require(buckets.of(7, 0, 'any'));
    while (!graphs.isComplete) graphs.captureNext();
    expect(captured).toEqual([]);
    expect(() => start(() => new RocmForgeError('OUT_OF_MEMORY', 'none is left')).graphs.captureAll()).toThrow('none');
  });

  it('an error of the device is one of the step, and the graph is captured when it is gone', () => {
    let error: Error | undefined = new Error('the device failed');
    const { graphs, buckets, captured } = start(() => error);
    expect(() => graphs.require(buckets.of(1, 0, 'largest'))).toThrow('the device failed');
    error = undefined;
    graphs.require(buckets.of(1, 0, 'largest'));
    expect(captured).toHaveLength(2);
  });
});
