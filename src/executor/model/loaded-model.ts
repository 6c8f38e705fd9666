import { RocmForgeError } from '../../shared/errors.js';
import { FileByteSource } from '../../shared/gguf/byte-source.js';
import { type ModelParameters, readModelParameters } from '../../shared/gguf/model-parameters.js';
import { type GgufFile, readGguf } from '../../shared/gguf/reader.js';
import type { Device } from '../device/device.js';
import { KV_BLOCK_TOKENS } from '../kernels/contracts/index.js';
import { findArchitecture } from './architecture.js';
import { ForwardPass } from './forward-pass.js';
import { KvCache, kvBlockBytes } from './kv-cache.js';
import type { Limits } from './limits.js';
import { ropeTable, uploadRope } from './rope-table.js';
import { blocksFor } from './slot-layout.js';
import { COUNT_DRAWS, COUNT_SAMPLES, COUNT_SPLITS, COUNT_TILES, COUNT_TOKENS, STEP_COUNTS } from './step-counts.js';
import { tensorBytes, Weights } from './weights.js';

/** What a gateway asks of a load. */
export interface LoadOptions {
  readonly path: string;
  readonly kvCacheType: 'f32' | 'f16';
  readonly maxContext: number;
  readonly maxSequences: number;
  readonly maxStepTokens: number;
  /** 0: room for maxContext × maxSequences tokens. */
  readonly kvMemoryBytes: number;
  /** Refuse a file with another fingerprint; empty: take any. */
  readonly fingerprint: string;
  /** Default: fused. */
  readonly attention?: Limits['attention'] | undefined;
}

/** A model whose plan is recorded: ready to run steps. */
export interface LoadedModel {
  readonly options: LoadOptions;
  readonly architecture: string;
  readonly fingerprint: string;
  readonly parameters: number;
  readonly weightBytes: number;
  readonly forward: ForwardPass;
  readonly plan: number;
  /** Kept because the plan's pointers lead into its mapping. */
  readonly weights: Weights;
}

/** Rows of a step where nobody says otherwise. On the host a longer one would hold up those that generate for seconds. */
const STEP_TOKENS = 2048;
const HOST_STEP_TOKENS = 512;

/**
 * Loads a GGUF file and records its launch plan.
 *
 * @throws RocmForgeError with the reason of the first thing that does not fit: file, architecture, tensor, memory
 */
export async function loadModel(
  device: Device,
  options: LoadOptions,
  onProgress: (done: number, total: number) => void,
): Promise<LoadedModel> {
  const source = new FileByteSource(options.path);
  try {
    const file = readGguf(source);
    if (options.fingerprint !== '' && options.fingerprint !== file.fingerprint) {
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `${options.path} is not the file that the gateway reads: their fingerprints differ`,
      );
    }
    const parameters = readModelParameters(file);
    const architecture = findArchitecture(parameters.architecture);
    const limits = limitsFor(device, options);
    const blocks = new BlockBudget(options, parameters);
    if (!device.isHost) refuseWhatCannotFit(device, file, blocks.leastBytes);
    const weights = await Weights.load(device, file, options.path, onProgress);
    const divisors = weights.has('rope_freqs.weight')
      ? device.readF32(weights.vector('rope_freqs.weight', parameters.ropeDimensions / 2))
      : undefined;
    const rope = uploadRope(device, ropeTable(parameters, limits.maxContext, divisors));
    const record = (cache: KvCache): ForwardPass => {
      const forward = new ForwardPass(device, parameters, { ...limits, kvBlocks: cache.blocks }, cache);
      architecture.record(forward, weights, rope);
      return forward;
    };
    const kvBlocks = device.isHost
      ? blocks.wanted
      : blocks.within(await freeAfterWarmUp(device, parameters, options, record));
    const forward = record(new KvCache(device, parameters, options.kvCacheType, kvBlocks));
    return {
      options,
      architecture: architecture.name,
      fingerprint: file.fingerprint,
      parameters: weights.parameters,
      weightBytes: weights.bytes,
      forward,
      plan: forward.finish(),
      weights,
    };
  } finally {
    source.close();
  }
}

/** Memory of a GPU that stays free: what the driver takes for itself as time goes by. */
const RESERVED_BYTES = 256 << 20;

/** Refuses a model before anything of it is uploaded. */
function refuseWhatCannotFit(device: Device, file: GgufFile, leastKvBytes: number): void {
  const { freeBytes, totalBytes } = device.native.memory();
  const weightBytes = tensorBytes(file);
  if (weightBytes + leastKvBytes + RESERVED_BYTES <= freeBytes) return;
  const giga = (bytes: number) => `${(bytes / 1e9).toFixed(2)} GB`;
  throw new RocmForgeError(
    'OUT_OF_MEMORY',
    `${file.name} does not fit: ${giga(weightBytes)} of weights and ${giga(leastKvBytes)} for the KV cache of one sequence, ` +
      `${giga(freeBytes)} of ${giga(totalBytes)} free; lower the context or take a smaller model`,
  );
}

/**
 * Bytes that a GPU has left for the KV cache once the largest step has run: code objects are loaded by then, and every
 * buffer of the forward pass is allocated.
 */
async function freeAfterWarmUp(
  device: Device,
  parameters: ModelParameters,
  options: LoadOptions,
  record: (cache: KvCache) => ForwardPass,
): Promise<number> {
  // All rows are those of the null slot, whose positions lie in the null block.
  const cache = new KvCache(device, parameters, options.kvCacheType, 1);
  const forward = record(cache);
  await runNullStep(device, forward, forward.finish(), forward.limits.maxStepTokens);
  const { freeBytes } = device.native.memory();
  forward.release();
  cache.release();
  return freeBytes - RESERVED_BYTES;
}

/** Runs a step whose rows are all of the null slot. */
async function runNullStep(device: Device, forward: ForwardPass, plan: number, rows: number): Promise<void> {
  const { limits, tables } = forward;
  const samples = Math.min(rows, limits.maxSequences);
  const input = new Int32Array(tables.offsets.writePairs);
  input[tables.offsets.tokens] = rows;
  input[tables.offsets.samples] = samples;
  input.fill(limits.maxSequences, tables.offsets.rowSlot, tables.offsets.rowSlot + rows);
  const counts = new Int32Array(STEP_COUNTS);
  counts[COUNT_TOKENS] = rows;
  counts[COUNT_SAMPLES] = samples;
  counts[COUNT_DRAWS] = samples;
  counts[COUNT_SPLITS] = 1;
  counts[COUNT_TILES] = rows;
  for (let row = 0; row < rows; row++) input.set([row, 1], tables.offsets.tiles + 2 * row);
  await device.native.run({
    plan,
    counts,
    recurring: false,
    input: new Uint8Array(input.buffer),
    deviceInput: tables.device.address,
    output: new Uint8Array(0),
    deviceOutput: tables.output.address,
  });
}

function limitsFor(device: Device, options: LoadOptions): Omit<Limits, 'kvBlocks'> {
  const { maxContext, maxSequences, kvCacheType, attention = 'fused' } = options;
  const ownStepTokens = Math.max(maxSequences, device.isHost ? HOST_STEP_TOKENS : STEP_TOKENS);
  const maxStepTokens = options.maxStepTokens === 0 ? ownStepTokens : options.maxStepTokens;
  for (const [name, value] of Object.entries({ maxContext, maxSequences, maxStepTokens })) {
    if (value < 1) throw new RocmForgeError('INVALID_OPTION', `${name} must be at least 1`);
  }
  if (maxStepTokens < maxSequences) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `a step of ${maxStepTokens} tokens cannot hold one token of each of ${maxSequences} sequences`,
    );
  }
  return { maxContext, maxSequences, maxStepTokens, kvCacheType, attention };
}

/** How many KV blocks a model gets: at most those of every sequence at its longest, and never less than one's. */
class BlockBudget {
  private readonly blockBytes: number;
  private readonly most: number;

  constructor(
    private readonly options: LoadOptions,
    model: ModelParameters,
  ) {
    this.blockBytes = kvBlockBytes(model, options.kvCacheType);
    this.most = options.maxSequences * blocksFor(options.maxContext);
  }

  /** Bytes without which not even one sequence fits. */
  get leastBytes(): number {
    return this.blockBytes * (1 + blocksFor(this.options.maxContext));
  }

  /** Blocks as the options ask, the null block included: nobody owns block 0. */
  get wanted(): number {
    const { kvMemoryBytes } = this.options;
    return kvMemoryBytes === 0 ? 1 + this.most : this.within(kvMemoryBytes);
  }

  /** Blocks that fit in so many bytes, and in what the options ask. */
  within(bytes: number): number {
    const { kvMemoryBytes, maxContext } = this.options;
    const granted = Math.floor((kvMemoryBytes === 0 ? bytes : Math.min(bytes, kvMemoryBytes)) / this.blockBytes) - 1;
    if (granted < blocksFor(maxContext)) {
      throw new RocmForgeError(
        'OUT_OF_MEMORY',
        `${bytes} bytes of KV cache hold ${Math.max(0, granted) * KV_BLOCK_TOKENS} tokens, less than one sequence of ` +
          `${maxContext}; give it more or lower the context`,
      );
    }
    return 1 + Math.min(granted, this.most);
  }
}
