import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import type { Device } from '../../src/executor/device/device.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevices } from '../../src/executor/load/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeQuantizedFamily } from '../support/quantized-family.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const PROMPT = 20;

// Cases of test/executor/tensor-split.test.ts on the host, in few rows: these devices simulate every thread. Here sums wait
// for each other within captured graphs.
describe.skipIf(missing !== undefined)('a model split into shards over two HIP devices', () => {
  const double = new HipDouble({ devices: 2 });
  let devices: readonly Device[];
  let path: string;
  let split: LoadedModel;

  async function load(options: Partial<LoadOptions> = {}): Promise<LoadedModel> {
    const limits = { maxContext: 64, maxSequences: 4, maxStepTokens: 128, kvMemoryBytes: 0, fingerprint: '' };
    const how = { path, kvCacheType: 'f16', split: 'tensor', ...limits, ...options } as const;
    return loadModel(devices, how, () => undefined);
  }
  const hashes = (chunk: number, others = 0) => logitsHashes(devices[1]!, split, chunk, others, PROMPT);

  beforeAll(async () => {
    double.install();
    devices = openDevices({ kind: 'hip', gpus: [0, 1] });
    path = writeRandomModel({ type: 'F16', layers: 2, hidden: 128, contextLength: 64, headDim: 64 });
    split = await load();
  });
  afterAll(() => {
    split.release();
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  });

  it('has one hash: alone, in chunks, and a token at a time as graphs on both', async () => {
    const alone = await hashes(PROMPT);
    expect(await hashes(7, 3), 'in chunks of 7 among 3 others').toEqual(alone);
    const before = double.calls().length;
    expect(await hashes(1), 'a token at a time').toEqual(alone);
    const graphs = double
      .calls()
      .slice(before)
      .filter((call) => call.startsWith('graph '));
    // The last token of the prompt, and three that follow.
    expect(graphs).toHaveLength(2 * 4);
  });

  it('copies nothing between them: each reads the other’s memory', () => {
    expect(double.calls().filter((call) => call.startsWith('peer'))).toEqual([]);
    expect(double.calls().filter((call) => call.startsWith('sum_ranks_2')).length).toBeGreaterThan(0);
  });

  it('has one hash of quantized weights, too, whose steps of one row take norms in their products', async () => {
    const quantized = await load({ path: writeQuantizedFamily('llama', 'Q8_0') });
    try {
      const { kernels } = quantized.forward;
      expect(kernels.filter((name) => name === 'sum_ranks_summed_2')).toHaveLength(8);
      expect(kernels.some((name) => name.startsWith('matmul_normed'))).toBe(true);
      const each = (chunk: number) => logitsHashes(devices[1]!, quantized, chunk, 0, 8);
      const alone = await each(8);
      expect(await each(1)).toEqual(alone);
      expect(await each(3)).toEqual(alone);
    } finally {
      quantized.release();
    }
  });
});
