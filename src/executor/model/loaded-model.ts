import { RocmForgeError } from '../../shared/errors.js';
import { FileByteSource } from '../../shared/gguf/byte-source.js';
import { readModelParameters } from '../../shared/gguf/model-parameters.js';
import { readGguf } from '../../shared/gguf/reader.js';
import type { Device } from '../device/device.js';
import { KV_BLOCK_TOKENS } from '../kernels/contracts/index.js';
import { findArchitecture } from './architecture.js';
import { ForwardPass } from './forward-pass.js';
import type { Limits } from './limits.js';
import { ropeTable, uploadRope } from './rope-table.js';
import { blocksFor } from './slot-layout.js';
import { Weights } from './weights.js';

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
    const limits = limitsFor(options, parameters);
    const weights = await Weights.load(file, options.path, onProgress);
    const forward = new ForwardPass(device, parameters, limits);
    const divisors = weights.has('rope_freqs.weight')
      ? device.readF32(weights.vector('rope_freqs.weight', parameters.ropeDimensions / 2))
      : undefined;
    const rope = uploadRope(device, ropeTable(parameters, limits.maxContext, divisors));
    architecture.record(forward, weights, rope);
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

function limitsFor(
  options: LoadOptions,
  model: { readonly layers: number; readonly kvHeads: number; readonly headDim: number },
): Limits {
  const { maxContext, maxSequences, maxStepTokens, kvCacheType } = options;
  for (const [name, value] of Object.entries({ maxContext, maxSequences, maxStepTokens })) {
    if (value < 1) throw new RocmForgeError('INVALID_OPTION', `${name} must be at least 1`);
  }
  if (maxStepTokens < maxSequences) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `a step of ${maxStepTokens} tokens cannot hold one token of each of ${maxSequences} sequences`,
    );
  }
  const blockBytes =
    2 * model.layers * model.kvHeads * KV_BLOCK_TOKENS * model.headDim * (kvCacheType === 'f32' ? 4 : 2);
  const wanted = maxSequences * blocksFor(maxContext);
  const granted = options.kvMemoryBytes === 0 ? wanted : Math.floor(options.kvMemoryBytes / blockBytes) - 1;
  if (granted < blocksFor(maxContext)) {
    throw new RocmForgeError(
      'OUT_OF_MEMORY',
      `${options.kvMemoryBytes} bytes of KV cache hold ${Math.max(0, granted) * KV_BLOCK_TOKENS} tokens, less than one ` +
        `sequence of ${maxContext}; give it more or lower the context`,
    );
  }
  // Block 0 is the null block: nobody owns it.
  return { maxContext, maxSequences, maxStepTokens, kvCacheType, kvBlocks: 1 + Math.min(granted, wanted) };
}
