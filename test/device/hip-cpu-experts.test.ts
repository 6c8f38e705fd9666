import { beforeAll, describe, expect, it } from 'vitest';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import type { NativeDevice, NativeLaunch } from '../../src/executor/device/addon.js';
import type { Device } from '../../src/executor/device/device.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { numericsOf } from '../../src/executor/serve/numerics-fingerprint.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeQuantizedFamily } from '../support/quantized-family.js';
import { writeRandomFamily } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

/** Tokens of the prompt, over which a chunk and a decoded token have rows of several experts. */
const PROMPT = 12;
/** Long enough that experts' matrices are brought to the GPU. */
const LONG_PROMPT = 33;
/** Too few for matrices to be brought to the GPU, and for the memory that this takes. */
const FEW_ROWS = { maxStepTokens: 4 };
const LIMITS = { maxContext: 64, maxSequences: 3, maxStepTokens: 48, kvMemoryBytes: 0, fingerprint: '' } as const;

describe.skipIf(missing !== undefined)('experts in host memory beside a HIP device', { timeout: 600_000 }, () => {
  const double = new HipDouble();
  let device: Device;
  beforeAll(() => {
    double.install();
    device = openDevice({ kind: 'hip' });
  });

  async function loaded<T>(
    path: string,
    cpuExperts: LoadOptions['cpuExperts'],
    use: (model: LoadedModel) => Promise<T>,
    limits: Partial<LoadOptions> = {},
  ) {
    const options = { ...LIMITS, path, kvCacheType: 'f16', cpuExperts, ...limits } as const;
    const model = await loadModel(device, options, () => undefined);
    try {
      return await use(model);
    } finally {
      model.release();
    }
  }

  const families = isFull
    ? (['qwen3moe', 'gpt-oss', 'llama-experts', 'deepseek2', 'glm4moe', 'gemma4-experts', 'nemotron_h_moe'] as const)
    : (['qwen3moe', 'gpt-oss'] as const);
  it.each(families)('%s in Q4_K_M has one hash of logits, wherever its experts are', async (family) => {
    const file = writeQuantizedFamily(family, 'Q4_K_M');
    const graphs = device.native.graphs();
    const [alone, numerics] = await loaded(file, 0, async (model) => {
      const hashes = await logitsHashes(device, model, PROMPT, 0, PROMPT);
      return [hashes, numericsOf(device, model)] as const;
    });
    const whole = device.native.graphs() - graphs;
    expect(new Set(alone).size).toBe(4);
    for (const cpuExperts of [1, 2]) {
      const before = device.native.graphs();
      await loaded(file, cpuExperts, async (model) => {
        // One before and one behind each product on the host: of gate and up, and of down.
        expect(device.native.graphs() - before).toBe((1 + 2 * cpuExperts) * whole);
        expect(model.cpuExperts).toBe(cpuExperts);
        expect(await logitsHashes(device, model, PROMPT, 0, PROMPT)).toEqual(alone);
        expect(await logitsHashes(device, model, 5, 2, PROMPT)).toEqual(alone);
        expect(numericsOf(device, model)).toBe(numerics);
      });
    }
  });

  it.each(families)('%s takes less of the GPU for each layer whose experts are in host memory', async (family) => {
    const file = writeQuantizedFamily(family, 'Q4_K_M');
    const usedBytes = (cpuExperts: number) => loaded(file, cpuExperts, async () => device.usedBytes, FEW_ROWS);
    const all = await usedBytes(0);
    for (const layers of [1, 2]) expect(all - (await usedBytes(layers))).toBeGreaterThan(layers * 100_000);
  });

  it.each(isFull ? families : families.slice(0, 1))(
    '%s has the same bits where a prompt brings its experts to the GPU',
    async (family) => {
      const file = writeQuantizedFamily(family, 'Q4_K_M');
      const alone = await loaded(file, 0, (model) => logitsHashes(device, model, LONG_PROMPT, 0, LONG_PROMPT));
      await loaded(file, 2, async (model) => {
        for (const chunk of [LONG_PROMPT, 15]) {
          expect(await logitsHashes(device, model, chunk, 0, LONG_PROMPT)).toEqual(alone);
        }
      });
    },
  );

  it('in F16 the host adds in another order: one hash for a placement, which the numerics fingerprint names', async () => {
    const file = writeRandomFamily('qwen3moe', { type: 'F16', layers: 2 });
    const hashes: string[] = [];
    for (const cpuExperts of [0, 1]) {
      await loaded(file, cpuExperts, async (model) => {
        const alone = await logitsHashes(device, model, PROMPT, 0, PROMPT);
        expect(await logitsHashes(device, model, 5, 2, PROMPT)).toEqual(alone);
        hashes.push(alone.join());
        expect(/ cpu-experts=1$/.test(numericsOf(device, model))).toBe(cpuExperts === 1);
      });
    }
    expect(new Set(hashes).size).toBe(2);
  });

  describe('planted errors', () => {
    const native = (): NativeDevice => device.native;
    let create: NativeDevice['createPlan'];
    const plant = (
      change: (launch: NativeLaunch, index: number, all: readonly NativeLaunch[]) => NativeLaunch,
    ): void => {
      create = native().createPlan;
      Object.defineProperty(native(), 'createPlan', {
        configurable: true,
        value: (launches: readonly NativeLaunch[], ...rest: [number, number, NativeDevice?]) =>
          create.call(native(), launches.map(change), ...rest),
      });
    };
    const word = (launch: NativeLaunch, argument: number, change: (word: bigint) => bigint): NativeLaunch => {
      const words = launch.arguments.slice();
      words[argument] = change(words[argument]!);
      return { ...launch, arguments: words };
    };
    const isCopy = ({ kernel }: NativeLaunch) => kernel === 'copy_chunks';
    it.each([
      ['of weights', PROMPT, 0, (launch: NativeLaunch) => !isCopy(launch)],
      ['of rows', PROMPT, 1, (launch: NativeLaunch) => !isCopy(launch)],
      ['of weights that are brought to the GPU', LONG_PROMPT, 0, isCopy],
    ] as const)('%s change the hash', async (_what, prompt, argument, isPlanted) => {
      const file = writeQuantizedFamily('qwen3moe', 'Q4_K_M');
      const hash = () => loaded(file, 1, (model) => logitsHashes(device, model, prompt, 0, prompt));
      const right = await hash();
      plant((launch) =>
        launch.onHost === true && isPlanted(launch) ? word(launch, argument, (address) => address + 4n) : launch,
      );
      try {
        expect(await hash()).not.toEqual(right);
      } finally {
        delete (native() as { createPlan?: unknown }).createPlan;
      }
    });
  });
});
