import { RocmForgeError } from '../shared/errors.js';
import type { ModelParameters } from '../shared/gguf/model-parameters.js';
import { MOST_CHOSEN_SEQUENCES, MOST_SEQUENCES, MOST_STEP_TOKENS } from '../shared/step-limits.js';
import { KV_BLOCK_TOKENS, type KvCacheType } from './kernels/index.js';
import type { Fusion } from './layers/fusions.js';
import { kvBlockBytes } from './model/kv-cache.js';
import type { Limits } from './model/limits.js';
import { blocksFor } from './model/slot-layout.js';

/** What a gateway asks of a load. */
export interface LoadOptions {
  readonly path: string;
  /** Where to open its file or each of its parts, when that is not the path: descriptors that a gateway handed down. */
  readonly openPaths?: readonly string[] | undefined;
  readonly kvCacheType: KvCacheType;
  readonly maxContext: number;
  /** 0: as fits the device. */
  readonly maxSequences: number;
  /** 0: 512, or maxSequences when that is more. */
  readonly maxStepTokens: number;
  /** 0: room for maxContext × maxSequences tokens. */
  readonly kvMemoryBytes: number;
  /** Refuse a file with another content identity; empty: take any. */
  readonly fingerprint: string;
  /** Default: fused. */
  readonly attention?: Limits['attention'] | undefined;
  /** For tests: fusions that are not used. */
  readonly without?: readonly Fusion[];
}

/** Rows of a step where nobody says otherwise: a longer one would hold up those that generate. */
export const STEP_TOKENS = 512;

/**
 * Sequences at once where nobody says how many: on the host few, for which it has the processors; on a GPU the first of
 * these that leaves each of them room for {@link EXPECTED_CONTEXT} positions, or for as many as it may have.
 */
export const HOST_SEQUENCES = 4;
export const GPU_SEQUENCES: readonly number[] = [MOST_CHOSEN_SEQUENCES, 128, 64, 32, 16, 8, 4, 2, 1];
const EXPECTED_CONTEXT = 2048;

/** What is granted but for the KV blocks, whose number depends on what the rest leaves. */
export type OwnLimits = Omit<Limits, 'kvBlocks'>;

/** What may be asked for: the blocks of a grid, and tables that JavaScript can hold. */
const MOST = { maxContext: 2 ** 24, maxSequences: MOST_SEQUENCES, maxStepTokens: MOST_STEP_TOKENS } as const;

/** @param sequences where none are asked for */
export function limitsFor(options: LoadOptions, sequences: number): OwnLimits {
  const { maxContext, kvCacheType, attention = 'fused' } = options;
  const maxSequences = options.maxSequences || Math.min(sequences, options.maxStepTokens || sequences);
  const maxStepTokens = options.maxStepTokens || Math.max(maxSequences, STEP_TOKENS);
  for (const [name, value] of Object.entries({ maxContext, maxSequences, maxStepTokens })) {
    const most = MOST[name as keyof typeof MOST];
    if (value < 1) throw new RocmForgeError('INVALID_OPTION', `${name} must be at least 1`);
    if (value > most)
      throw new RocmForgeError('INVALID_OPTION', `${name} is ${value}; the most that is granted is ${most}`);
  }
  if (maxStepTokens < maxSequences) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `a step of ${maxStepTokens} tokens cannot hold one token of each of ${maxSequences} sequences`,
    );
  }
  return { maxContext, maxSequences, maxStepTokens, kvCacheType, attention };
}

/** Beyond the context it was trained for a model says nothing of use, whatever it costs. */
export function checkContext({ contextLength }: ModelParameters, maxContext: number): void {
  if (maxContext <= contextLength) return;
  throw new RocmForgeError('INVALID_OPTION', `maxContext is ${maxContext}; the model's context is ${contextLength}`);
}

/** How many KV blocks a model gets: at most those of every sequence at its longest, and never less than one's. */
export class BlockBudget {
  private readonly blockBytes: number;

  constructor(
    private readonly options: LoadOptions,
    model: ModelParameters,
  ) {
    this.blockBytes = kvBlockBytes(model, options.kvCacheType);
  }

  /** Bytes without which not even one sequence fits. */
  get leastBytes(): number {
    return this.blockBytes * (1 + blocksFor(this.options.maxContext));
  }

  /** Bytes of a sequence of {@link EXPECTED_CONTEXT} positions, or of as many as one may have. */
  get expectedBytes(): number {
    return this.blockBytes * this.expectedBlocks;
  }

  /** Blocks as the options ask, the null block included: nobody owns block 0. */
  wanted(sequences: number): number {
    const { kvMemoryBytes } = this.options;
    return kvMemoryBytes === 0 ? 1 + this.most(sequences) : this.within(kvMemoryBytes, sequences);
  }

  /** Whether each of so many sequences has room for what is expected of it. */
  holds(sequences: number, bytes: number): boolean {
    return this.granted(bytes) >= sequences * this.expectedBlocks;
  }

  /** Blocks that fit in so many bytes, and in what the options ask. */
  within(bytes: number, sequences: number): number {
    const { maxContext } = this.options;
    const granted = this.granted(bytes);
    if (granted < blocksFor(maxContext)) {
      throw new RocmForgeError(
        'OUT_OF_MEMORY',
        `${bytes} bytes of KV cache hold ${Math.max(0, granted) * KV_BLOCK_TOKENS} tokens, less than one sequence of ` +
          `${maxContext}; give it more or lower the context`,
      );
    }
    return 1 + Math.min(granted, this.most(sequences));
  }

  private get expectedBlocks(): number {
    return blocksFor(Math.min(EXPECTED_CONTEXT, this.options.maxContext));
  }

  private most(sequences: number): number {
    return sequences * blocksFor(this.options.maxContext);
  }

  private granted(bytes: number): number {
    const { kvMemoryBytes } = this.options;
    return Math.floor((kvMemoryBytes === 0 ? bytes : Math.min(bytes, kvMemoryBytes)) / this.blockBytes) - 1;
  }
}
