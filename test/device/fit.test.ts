import pathOf from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { FitReport } from '../../src/cli/inspect/fit.js';
import type { Device } from '../../src/executor/device/device.js';
import { countingGpu, type Fit, fitModel, grantOn, presentGpu } from '../../src/executor/load/fit.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { blocksFor } from '../../src/executor/model/slot-layout.js';
import { ModelFiles } from '../../src/lib/gguf/model-files.js';
import { RocmForgeError } from '../../src/shared/errors.js';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeQuantizedFamily } from '../support/quantized-family.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const MIB = 1 << 20;
const MEMORY_MIB = 330;
const CONTEXT_LENGTH = 65_536;

describe.skipIf(missing !== undefined)('what inspect --fit promises of a GPU', () => {
  const double = new HipDouble({ memoryBytes: MEMORY_MIB * MIB, idle: true });
  const path = writeRandomModel({ type: 'F16', headDim: 64, contextLength: CONTEXT_LENGTH });
  let device: Device;
  beforeAll(() => {
    double.install();
    device = openDevice({ kind: 'hip' });
  });

  /** Loads the model with its weights. @returns blocks that are granted, but for the null block; 0 when it is refused */
  async function blocksOf(maxContext: number, maxSequences: number): Promise<number> {
    const limits = { maxContext, maxSequences, maxStepTokens: 0, kvMemoryBytes: 0 };
    let model: LoadedModel;
    try {
      model = await loadModel(device, { path, kvCacheType: 'f16', fingerprint: '', ...limits }, () => undefined);
    } catch (error) {
      expect(error).toBeInstanceOf(RocmForgeError);
      expect((error as RocmForgeError).reason).toBe('OUT_OF_MEMORY');
      return 0;
    }
    const { kvBlocks } = model.forward.limits;
    model.release();
    return kvBlocks - 1;
  }

  const seen: Fit[] = [];
  it.each([
    [MEMORY_MIB, 1024, 8],
    [310, 4096, 4],
    [300, 2048, 0],
    [293, 512, 2],
    [280, 512, 1],
  ])(
    'with %i MiB free it loads, and one block or one sequence more does not',
    async (mebibytes, context, sequences) => {
      const taken = (MEMORY_MIB - mebibytes) * MIB;
      const ballast = taken > 0 ? device.allocate('u8', taken) : undefined;
      const files = new ModelFiles(path);
      const question = { model: files.model, kvCacheType: 'f16', context, sequences } as const;
      const gpu = presentGpu(device);
      const used = device.usedBytes;
      const fit = await fitModel(gpu, question);
      const { freeBytes } = gpu;
      // Counting alone comes to the same: this device's driver takes nothing but the ends of its pages, which are counted.
      const counted = await fitModel(countingGpu(gpu.description, device.target, freeBytes), question);
      expect(counted).toEqual({ ...fit, granted: fit.granted && { ...fit.granted, driverBytes: null } });
      if (fit.granted) expect(fit.granted.driverBytes).toBeGreaterThanOrEqual(0);
      expect(device.native.memory().freeBytes).toBe(freeBytes);
      seen.push(fit);

      const { longestContext, mostSequences } = fit;
      const count = longestContext.sequences;
      expect(fit.granted?.kvTokens ?? 0).toBe(16 * (await blocksOf(context, sequences)));
      expect(longestContext.whole).toBeLessThanOrEqual(longestContext.shared);
      expect(mostSequences.whole).toBeLessThanOrEqual(mostSequences.shared);
      for (const [at, isWhole] of [
        [longestContext.shared, false],
        [longestContext.whole, true],
      ] as const) {
        const needed = (tokens: number) => (isWhole ? count * blocksFor(tokens) : 1);
        expect(at).toBeLessThan(CONTEXT_LENGTH);
        if (at > 0) expect(await blocksOf(at, count)).toBeGreaterThanOrEqual(needed(at));
        expect(await blocksOf(at + 16, count)).toBeLessThan(needed(at + 16));
      }
      for (const [at, isWhole] of [
        [mostSequences.shared, false],
        [mostSequences.whole, true],
      ] as const) {
        const needed = (n: number) => (isWhole ? n * blocksFor(context) : 1);
        if (at > 0) expect(await blocksOf(context, at)).toBeGreaterThanOrEqual(needed(at));
        expect(await blocksOf(context, at + 1)).toBeLessThan(needed(at + 1));
      }
      if (ballast) device.release(ballast);
      expect(device.usedBytes).toBe(ballast ? used - taken : used);
      files.close();
    },
  );

  /** Runs the command where a GPU is found. */
  async function reportWith(environment: Readonly<Record<string, string>>): Promise<FitReport> {
    const main = pathOf.join(packageRoot, 'dist', 'cli', 'main.js');
    const args = [main, 'inspect', '--fit', path, '--context', '1024', '--sequences', '8', '--json'];
    const { code, stdout, stderr } = await runProgram(process.execPath, args, '', environment);
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout) as FitReport;
  }

  it('is told of each GPU that is here', async () => {
    const { devices, unusable } = await reportWith(double.environment);
    expect(unusable).toEqual([]);
    expect(devices).toHaveLength(1);
    expect(devices[0]!.device).toMatch(/^hip \(/);
    const { longestContext, mostSequences } = seen[0]!;
    const told = { freeBytes: MEMORY_MIB * MIB, refusal: null, longestContext, mostSequences };
    expect(devices[0]).toMatchObject(told);
    expect(devices[0]!.tokensPerSecond).toBeGreaterThan(0);
  });

  it.each([1, 2])(
    'grants a load with the experts of %i layers in host memory, which runs a step',
    async (cpuExperts) => {
      const files = new ModelFiles(writeQuantizedFamily('qwen3moe', 'Q4_K_M'));
      const question = { model: files.model, kvCacheType: 'f16', context: 64, sequences: 1, cpuExperts } as const;
      const used = device.usedBytes;
      expect(await grantOn(presentGpu(device), question)).toMatchObject({ cpuExperts, context: 64, sequences: 1 });
      expect(device.usedBytes).toBe(used);
      files.close();
    },
  );

  it('counts memory that loads may take, and what a driver takes beside it', async () => {
    const files = new ModelFiles(path);
    const question = { model: files.model, kvCacheType: 'f16', context: 512, sequences: 2 } as const;
    const limited = presentGpu(device, 293 * MIB);
    expect(limited.freeBytes).toBe(293 * MIB);
    const { granted } = await fitModel(limited, question);
    expect(granted).toEqual({ ...seen[3]!.granted, driverBytes: granted!.driverBytes });
    expect(granted!.driverBytes).toBeLessThan(MIB);
    files.close();
  });

  it('and of one that has no kernels, why it is not used', async () => {
    const { devices, unusable, withoutLimit } = await reportWith(new HipDouble({ target: 'gfx1036' }).environment);
    expect(devices).toEqual([]);
    expect(unusable).toEqual([expect.stringMatching(/^hip 0, .*: no kernels for gfx1036 in /)]);
    expect(withoutLimit.kvTokens).toBe(8 * 1024);
  });

  it('and promises less of less memory', () => {
    console.log(
      seen.map(({ longestContext, mostSequences }) => JSON.stringify({ longestContext, mostSequences })).join('\n'),
    );
    expect(new Set(seen.map(({ longestContext }) => longestContext.shared)).size).toBe(seen.length);
    expect(seen.every(({ mostSequences }) => mostSequences.shared > 0)).toBe(true);
  });
});
