import { beforeAll, describe, expect, it } from 'vitest';
import type { Device } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import { encodeStep } from '../../src/gateway/replica/link/step-encoding.js';
import { Scheduler } from '../../src/gateway/replica/scheduler/scheduler.js';
import { GREEDY, Sequence } from '../../src/gateway/request/sequence.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const SEQUENCES = 64;
const CONTEXT = 2048;
const REQUESTS = 300;

/** The same numbers each time, below `most`. */
function random(seed: number): (most: number) => number {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

describe.skipIf(missing !== undefined)('captured graphs', () => {
  // The launches are the question, not their results.
  const double = new HipDouble({ idle: true });
  let device: Device;
  let model: LoadedModel;

  beforeAll(async () => {
    double.install();
    device = openDevice({ kind: 'hip' });
    const limits = { maxContext: CONTEXT, maxSequences: SEQUENCES, maxStepTokens: 512, kvMemoryBytes: 0 };
    // Heads of 64: attention is split among blocks, so that graphs differ by splits, too.
    const path = writeRandomModel({
      type: 'F16',
      contextLength: CONTEXT,
      headDim: 64,
    });
    model = await loadModel(device, { path, kvCacheType: 'f16', fingerprint: '', ...limits }, () => undefined);
  });

  it('are all there when the load ends: once to measure their memory, once to serve', () => {
    const buckets = model.graphs.buckets.all();
    const instantiated = double.calls().filter((call) => call.startsWith('instantiate'));
    console.log(
      `${buckets.length} graphs of ${instantiated[0]!.split(' ')[1]} to ${instantiated.at(-1)!.split(' ')[1]} launches, captured in ` +
        `${model.captureMs?.toFixed(0)} ms on the double`,
    );
    // 7 sizes of rows, of which 4 are few and have 3 ways of sampling; 5 of splits.
    expect(buckets).toHaveLength((4 * 3 + 3) * 5);
    expect(device.native.graphs()).toBe(2 * buckets.length);
    expect(instantiated).toHaveLength(2 * buckets.length);
  });

  it(`none is instantiated in ${REQUESTS} requests on ${SEQUENCES} slots, and each recurring step is one graph`, async () => {
    const below = random(7);
    const { limits } = model.forward;
    const scheduler = new Scheduler({ maxSequences: SEQUENCES, maxStepTokens: 512, kvBlocks: limits.kvBlocks });
    const runner = new StepRunner(device, model, 1n);
    const sequences = Array.from({ length: REQUESTS }, (_, i) => {
      // Prompts that begin alike: most are found, and some requests open a slot in a step of one token each.
      const common = Array.from({ length: 16 * below(8) }, (_, at) => 3 + (at % 90));
      const own = Array.from({ length: 1 + below(i % 10 === 0 ? 700 : 40) }, () => 3 + below(200));
      const promptIds = Uint32Array.from(i % 3 === 0 ? common.concat(1) : common.concat(own));
      return new Sequence({ promptIds, sampling: GREEDY, maxTokens: 1 + below(150), priority: 0 });
    });
    const before = { graphs: device.native.graphs(), calls: double.calls().length };
    const underWay: Promise<number[]>[] = [];
    let [steps, recurring, added] = [0, 0, 0];
    const shapes = new Set<string>();
    while (sequences.some(({ state }) => state !== 'ended')) {
      for (let arrivals = below(10) === 0 ? 9 : 0; arrivals > 0 && added < REQUESTS; arrivals--)
        scheduler.add(sequences[added++]!);
      while (underWay.length < 2) {
        const plan = scheduler.plan();
        if (plan === undefined) break;
        steps += 1;
        if (plan.slices.every(({ count, sample }) => count === 1 && sample)) {
          recurring += 1;
          shapes.add(`${plan.slices.length} ${plan.opens.length > 0}`);
        }
        underWay.push(runner.submit(encodeStep(plan, 1n)).then(({ outputs }) => outputs.map(({ tokenId }) => tokenId)));
      }
      if (underWay.length === 0) {
        if (added < REQUESTS) scheduler.add(sequences[added++]!);
        continue;
      }
      for (const { sequence } of scheduler.complete(await underWay.shift()!).tokens) {
        if (sequence.emitted.length >= sequence.options.maxTokens) scheduler.end(sequence);
      }
    }
    const calls = double.calls().slice(before.calls);
    const graphs = calls.filter((call) => call.startsWith('graph ')).length;
    console.log(
      `${steps} steps, ${recurring} of one token a sequence in ${shapes.size} shapes, ${graphs} graph launches, ` +
        `${device.native.graphs() - before.graphs} graphs instantiated after the load`,
    );
    expect(recurring).toBeGreaterThan(300);
    // Slot writes are outside of the graphs: steps that open a slot are no others.
    expect([...shapes].some((shape) => shape.endsWith('true'))).toBe(true);
    expect(graphs).toBe(recurring);
    expect(device.native.graphs()).toBe(before.graphs);
    expect(calls.some((call) => call.startsWith('instantiate'))).toBe(false);
  });

  it('are freed with their plan, and so is all the memory', async () => {
    const { freeBytes } = device.native.memory();
    expect(freeBytes).toBeLessThan(2 ** 31);
    const opened = device.usedBytes;
    expect(opened).toBeGreaterThan(0);
    model.release();
    expect(device.usedBytes).toBe(0);
    expect(() => model.release()).not.toThrow();
    await expect(
      (async () => device.native.run({ ...NO_STEP, plan: model.plan, counts: new Int32Array(7) }))(),
    ).rejects.toThrow('no such plan');
  });
});

const nothing = new Uint8Array(0);
const NO_STEP = { recurring: false, input: nothing, deviceInput: 0, output: nothing, deviceOutput: 0 };
