import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { MIXTURES, UNIFORM_TYPES } from '../../src/cli/synth/mixtures.js';
import { synth } from '../../src/cli/synth.js';
import type { NativeLaunch } from '../../src/executor/device/addon.js';
import { Device, DeviceScope } from '../../src/executor/device/device.js';
import { ForwardPass } from '../../src/executor/layers/forward-pass.js';
import { uploadRopes } from '../../src/executor/layers/rope.js';
import { architectures } from '../../src/executor/model/architecture.js';
import { ForwardPass as OldForwardPass } from '../../src/executor/model/forward-pass.js';
import { KvCache } from '../../src/executor/model/kv-cache.js';
import type { Limits } from '../../src/executor/model/limits.js';
import { Weights } from '../../src/executor/model/model-weights.js';
import { ropeTable, uploadRope } from '../../src/executor/model/rope-table.js';
import { TensorCatalog } from '../../src/executor/model/tensors.js';
import { mapModelFile, Weights as OldWeights } from '../../src/executor/model/weights.js';
import { llama } from '../../src/executor/models/llama.js';
import { qwen2 } from '../../src/executor/models/qwen2.js';
import { FileByteSource } from '../../src/shared/gguf/byte-source.js';
import { readGguf } from '../../src/shared/gguf/reader.js';
import { readServableModel } from '../../src/shared/gguf/servable-model.js';
import { FakeNativeDevice } from '../doubles/native-device.js';

class RecordingDevice extends FakeNativeDevice {
  readonly recorded: NativeLaunch[][] = [];
  override createPlan(launches: readonly NativeLaunch[]): number {
    this.recorded.push([...launches]);
    return super.createPlan(launches);
  }
}

/** The launches with every word that is an address named by the order in which they are first used. */
function renamed(launches: readonly NativeLaunch[]): unknown[] {
  const names = new Map<bigint, string>();
  return launches.map(({ kernel, grid, arguments: words, when }) => ({
    kernel,
    grid,
    when,
    arguments: Array.from(words, (word) => {
      if (word < 2n ** 39n) return word;
      const name = names.get(word) ?? `buffer ${names.size}`;
      names.set(word, name);
      return name;
    }),
  }));
}

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const SHAPE = {
  hidden: 256,
  ffn: 512,
  layers: 3,
  context: 2048,
  ropeBase: 10_000,
  vocabulary: 600,
  preTokenizer: 'llama-bpe',
} as const;

function record(kind: 'host' | 'hip', file: string, limits: Limits, isNew: boolean): Promise<unknown[]> {
  const native = new RecordingDevice();
  const device = new Device(native, kind, 'double');
  const memory = new DeviceScope(device);
  const gguf = readGguf(new FileByteSource(file));
  const parameters = readServableModel(gguf);
  const mapping = mapModelFile(file);
  const nothing = (): void => undefined;
  const run = async (): Promise<unknown[]> => {
    const cache = new KvCache(memory, parameters, limits.kvCacheType, limits.kvBlocks);
    if (isNew) {
      const tensors = new TensorCatalog(gguf);
      const graph = (parameters.architecture === 'llama' ? llama : qwen2).build(parameters, tensors);
      tensors.refuseUnread();
      const weights = await Weights.load(memory, gguf, mapping, graph, nothing);
      const ropes = uploadRopes(memory, graph, weights, limits.maxContext);
      new ForwardPass(memory, { graph, parameters, weights, ropes, limits, cache }).finish();
    } else {
      const weights = await OldWeights.load(memory, gguf, mapping, nothing);
      const { ropeDimensions, ropeFreqBase } = parameters;
      const spec = { dimensions: ropeDimensions, base: ropeFreqBase, factor: 1, magnitude: 1 };
      const divisors = weights.has('rope_freqs.weight')
        ? device.readF32(weights.vector('rope_freqs.weight', ropeDimensions / 2))
        : undefined;
      const rope = uploadRope(memory, ropeTable(spec, limits.maxContext, divisors));
      const forward = new OldForwardPass(memory, parameters, limits, cache);
      architectures[parameters.architecture].record(forward, weights, rope);
      forward.finish();
    }
    return native.recorded.at(-1) as NativeLaunch[];
  };
  return run().then((launches) => renamed(launches as NativeLaunch[]));
}

describe.each(['llama', 'qwen2'] as const)('the plan of a %s', (architecture) => {
  for (const type of [...UNIFORM_TYPES, ...Object.keys(MIXTURES)]) {
    it(`of ${type} is launch for launch what it was`, async () => {
      for (const [heads, headDim, tied] of [
        [4, 64, false],
        [8, 32, true],
      ] as const) {
        const output = path.join(folder, `${architecture}-${type}-${headDim}.gguf`);
        synth({ shape: { ...SHAPE, architecture, heads, kvHeads: heads / 2, headDim, tied }, type, output });
        for (const kind of ['host', 'hip'] as const) {
          for (const kvCacheType of ['f32', 'f16'] as const) {
            for (const attention of ['fused', 'unfused'] as const) {
              const limits = {
                maxContext: 1024,
                maxSequences: 8,
                maxStepTokens: 128,
                kvBlocks: 65,
                kvCacheType,
                attention,
              };
              const before = await record(kind, output, limits, false);
              expect(await record(kind, output, limits, true)).toEqual(before);
              expect(before.length).toBeGreaterThan(20);
            }
          }
        }
      }
    });
  }
});
