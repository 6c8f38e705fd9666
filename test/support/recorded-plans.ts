import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { readBandwidth } from '../../src/cli/bench/read-bandwidth.js';
import { MIXTURES, UNIFORM_TYPES } from '../../src/cli/synth/mixtures.js';
import type { ModelShape } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import type { NativeLaunch } from '../../src/executor/device/addon.js';
import type { DeviceClass } from '../../src/executor/device/contract.js';
import { Device } from '../../src/executor/device/device.js';
import {
  convert,
  copyWords,
  HEAD_DIMS,
  KV_CACHE_TYPES,
  KV_Q8_HEAD_DIMS,
  MAMBA_STATES,
  RANK_COUNTS,
  TILE_HEAD_DIMS,
} from '../../src/executor/kernels/index.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { selfTest } from '../../src/executor/load/self-test.js';
import type { TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import { FakeNativeDevice } from '../doubles/native-device.js';
import { RANDOM_ENCODER_NAMES, writeRandomEncoder } from './random-encoders.js';
import { RANDOM_FAMILIES, RANDOM_FAMILY_NAMES, type RandomFamilyName } from './random-families.js';
import { layersOf, randomModel, writeRandomModel } from './random-model.js';

/** A device that keeps the names of the kernels that its plans launch. */
class RecordingDevice extends FakeNativeDevice {
  readonly launched = new Set<string>();
  /** By the host for it. */
  readonly onHost = new Set<string>();
  override readonly properties;

  constructor({ wave, block }: { readonly wave: number; readonly block: number }) {
    super(2 ** 40);
    this.properties = { description: 'no device', wave, block };
  }

  override createPlan(launches: readonly NativeLaunch[], countSlots: number, captureFrom: number): number {
    for (const { kernel, onHost } of launches) (onHost === true ? this.onHost : this.launched).add(kernel);
    return super.createPlan(launches, countSlots, captureFrom);
  }
}

/** Devices on which what is launched may differ. */
const DEVICES = [
  { kind: 'host', wave: 1, block: 1 },
  { kind: 'hip', wave: 32, block: 256 },
  { kind: 'hip', wave: 64, block: 256 },
  { kind: 'cuda', wave: 32, block: 256 },
  { kind: 'cuda', wave: 32, block: 256, target: 'sm_90' },
] as const;

const WIDE = { hidden: 256, ffn: 256, layers: 1, heads: 1, kvHeads: 1, headDim: 64, vocabulary: 600, context: 512 };
const family = { architecture: 'llama', preTokenizer: 'llama-bpe', ropeBase: 10_000, tied: false } as const;
const shapeOf = (shape: Partial<ModelShape>): ModelShape => ({ ...family, ...WIDE, ...shape });

/** Every type of weights, in shapes that take each of its forms, then every head size and group. */
function* models(): Generator<{ readonly type: string; readonly shape: ModelShape }> {
  for (const type of [...UNIFORM_TYPES, ...Object.keys(MIXTURES)]) {
    yield { type, shape: shapeOf({ layers: 3 }) };
    yield { type, shape: shapeOf({ tied: true, architecture: 'qwen2', preTokenizer: 'qwen2' }) };
    // Rows that are no multiple of what packed weights take, or matrix units.
    const odd = /^(I?Q|MXFP)/.test(type) ? { hidden: 96, ffn: 96 } : { hidden: 100, ffn: 100 };
    yield { type, shape: shapeOf(odd) };
    // Every row to every expert: runs as long as the step, in every form.
    yield { type, shape: shapeOf({ experts: { count: 4, used: 4, ffn: 256 } }) };
    yield { type, shape: shapeOf({ ...odd, experts: { count: 4, used: 4, ffn: odd.ffn } }) };
  }
  for (const headDim of HEAD_DIMS) yield { type: 'F16', shape: shapeOf({ headDim }) };
  // Rows that Hopper's products of one row take, of each format of fragments.
  const rows = [
    [{ hidden: 1024, heads: 8 }, ['F16', 'BF16', 'Q2_K', 'Q6_K', 'Q8_0']],
    [{ hidden: 2048, heads: 16 }, ['Q3_K', 'Q4_0', 'Q5_0', 'IQ4_XS']],
  ] as const;
  for (const [sizes, types] of rows) {
    const shape = { ...sizes, layers: 2, headDim: 128 };
    for (const type of types) {
      yield { type, shape: shapeOf({ ...shape, ffn: 4096 }) };
      yield { type, shape: shapeOf({ ...shape, experts: { count: 4, used: 4, ffn: 256 } }) };
    }
  }
  // q and k in one format, v in another.
  for (const type of ['Q3_K_M', 'Q4_K_M', 'Q5_K_M'])
    yield { type, shape: shapeOf({ layers: 3, hidden: 512, heads: 4, headDim: 128, ffn: 512 }) };
  const qkNorm = { architecture: 'qwen3', preTokenizer: 'qwen2', parts: { qkNorm: 'head' } } as const;
  for (const headDim of TILE_HEAD_DIMS)
    for (const type of ['F16', 'BF16', ...(headDim % 32 === 0 ? ['Q8_0'] : [])])
      yield { type, shape: shapeOf({ ...qkNorm, headDim }) };
  // More heads of a group than a tile of queries holds.
  for (const [headDim, heads] of [
    [64, 129],
    [80, 129],
    [96, 129],
    [128, 129],
    [256, 65],
  ] as const) {
    yield { type: 'F16', shape: shapeOf({ headDim, heads }) };
  }
  for (const type of ['BF16', 'Q8_0']) yield { type, shape: shapeOf({ headDim: 256 }) };
}

/** A model of a family with its experts' matrices of a type. */
function writeExperts(folder: string, family: RandomFamilyName, type: TensorTypeName): string {
  const builder = randomModel({ family, layers: Math.min(8, layersOf(family)) });
  for (const { name, dims } of builder.read().tensors.values()) if (dims.length === 3) builder.retype(name, type);
  const file = path.join(folder, `${family}-${type}.gguf`);
  writeFileSync(file, builder.build());
  return file;
}

/** A model with latent attention as real ones have it, of few heads, whose matrices of the heads are of a type. */
function writeLatents(folder: string, type: TensorTypeName, valueDim: number): string {
  const latents = { rank: 512, plain: 256, rotated: 64, valueDim };
  const builder = randomModel({ family: 'deepseek2', layers: 2, latents });
  for (const { name } of builder.read().tensors.values()) if (/attn_[kv]_b/.test(name)) builder.retype(name, type);
  const file = path.join(folder, `latents-${type}-${valueDim}.gguf`);
  writeFileSync(file, builder.build());
  return file;
}

/** The fewest columns of an encoder that are whole heads, and a multiple of 64. */
function widthOf(headDim: number): number {
  let width = headDim;
  while (width % 64 !== 0) width += headDim;
  return width;
}

/**
 * The kernels that something launches on each class of devices: the plans of every family, type of weights and of
 * cache, head size and form of attention, what brings weights to a device, the self-test, and what measures a device.
 *
 * @param types of the weights: all, or those of families alone, which take an eighth of the time
 */
export async function launchedKernels(types: 'all' | 'families'): Promise<Readonly<Record<DeviceClass, Set<string>>>> {
  const launched = { host: new Set<string>(), portable: new Set<string>(), hopper: new Set<string>() };
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const shapes = types === 'all' ? [...models()] : [];
  const files = shapes.map(({ type, shape }, i) => {
    const file = path.join(folder, `${i}.gguf`);
    synth({ shape, type, output: file });
    return file;
  });
  // Whose heads a q8_0 cache can hold.
  const quantizable = new Set(files.filter((_, i) => KV_Q8_HEAD_DIMS.includes(shapes[i]!.shape.headDim)));
  const sinks = ['F32', 'F16', 'BF16'].map((type) => writeExperts(folder, 'gpt-oss', type as TensorTypeName));
  const others = RANDOM_FAMILY_NAMES.filter((family) => family !== 'gpt-oss');
  // Keys of some families list their layers.
  const most = (family: RandomFamilyName) => ('layerShape' in RANDOM_FAMILIES[family] ? layersOf(family) : 8);
  const plain = others.map((family) => writeRandomModel({ family, layers: Math.min(most(family), layersOf(family)) }));
  const latentFamilies = plain.filter((_, i) => 'latents' in RANDOM_FAMILIES[others[i]!]);
  files.push(...plain, ...sinks);
  // Experts with GELU.
  files.push(...(['F16', 'BF16'] as const).map((type) => writeExperts(folder, 'gemma4-experts', type)));
  // And without a gate.
  files.push(...(['F16', 'BF16'] as const).map((type) => writeExperts(folder, 'nemotron_h_moe', type)));
  // Those of whole tiles, and others.
  const latents = (types === 'all' ? UNIFORM_TYPES : ['Q4_K']).flatMap((type) =>
    [32, 24].map((valueDim) => writeLatents(folder, type as TensorTypeName, valueDim)),
  );
  files.push(...latents);
  for (const file of [...sinks, ...latents]) quantizable.add(file);
  files.push(...MAMBA_STATES.map((stateColumns) => writeRandomModel({ family: 'falcon-h1', layers: 1, stateColumns })));
  // Forms of attention that are fused alone.
  const fused = new Set([...sinks, ...latents, ...latentFamilies]);
  const drafting = (['qwen35', 'lfm2', 'glm4moe'] as const).map((family) =>
    writeRandomModel({ family, layers: layersOf(family), predicts: family !== 'lfm2' }),
  );
  const shards = writeRandomModel({ type: 'F16', hidden: 256, headDim: 64 });
  const encoders = [
    ...RANDOM_ENCODER_NAMES.map((name) => writeRandomEncoder(name)),
    ...(types === 'all' ? HEAD_DIMS : []).map((headDim) =>
      writeRandomEncoder('bert', { headDim, hidden: widthOf(headDim), layers: 1 }),
    ),
  ];
  for (const { kind, ...sizes } of DEVICES) {
    const target = 'target' in sizes ? sizes.target : 'double';
    const native = new RecordingDevice(sizes);
    const device = new Device(native, kind, target);
    const options = { maxContext: 512, maxSequences: 2, maxStepTokens: 160, kvMemoryBytes: 0, fingerprint: '' };
    // Copies of KV blocks are the same kernels for every model.
    const saving = { ...options, path: shards, kvCacheType: 'f16', savedMemory: 0 } as const;
    (await loadModel(device, saving, () => undefined)).release();
    for (const file of files) {
      for (const kvCacheType of KV_CACHE_TYPES) {
        for (const attention of ['fused', 'unfused'] as const) {
          if (attention === 'unfused' && fused.has(file)) continue;
          if (kvCacheType === 'q8_0' && (attention === 'unfused' || !quantizable.has(file))) continue;
          const model = await loadModel(device, { ...options, path: file, kvCacheType, attention }, () => undefined);
          model.release();
        }
      }
    }
    // Experts in the host's memory.
    if (!device.isHost) {
      device.opensHost = () => new Device(new RecordingDevice({ wave: 1, block: 1 }), 'host', 'x86-64-v3');
      for (const file of files.filter((_, i) => shapes[i]?.shape.experts !== undefined)) {
        const how = { ...options, path: file, kvCacheType: 'f16', cpuExperts: 1 } as const;
        (await loadModel(device, how, () => undefined)).release();
      }
      for (const kernel of native.onHost) launched.host.add(kernel);
    }
    for (const path of encoders) {
      const how = { ...options, maxContext: 256, maxStepTokens: 256, path, kvCacheType: 'f16' } as const;
      (await loadModel(device, how, () => undefined)).release();
    }
    // Rows that recurrent models keep for draft tokens, and blocks that predict tokens.
    for (const path of drafting) {
      const how = { ...options, path, kvCacheType: 'f16', draftTokens: 4, predicts: true } as const;
      (await loadModel(device, how, () => undefined)).release();
    }
    // Over as many devices as there may be, of which any is like the others.
    for (const ranks of RANK_COUNTS) {
      const others = Array.from({ length: ranks - 1 }, () => new Device(new RecordingDevice(sizes), kind, target));
      const how = { ...options, path: shards, kvCacheType: 'f16', split: 'tensor' } as const;
      (await loadModel([device, ...others], how, () => undefined)).release();
    }
    // Nothing is computed, which the self-test notices when everything is launched.
    await selfTest(device).catch(() => undefined);
    await readBandwidth(device, { onHost: { bytes: 1 << 20, address: 2 ** 30 } });
    for (const kernel of native.launched) launched[device.deviceClass].add(kernel);
    // Launches of native code around each step, and of `verify --beside-host`.
    launched[device.deviceClass].add(device.isHost ? convert('f16').name : copyWords.name);
  }
  rmSync(folder, { recursive: true });
  return launched;
}
