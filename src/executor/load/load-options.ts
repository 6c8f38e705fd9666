import type { ModelParameters } from '../../lib/gguf/model-parameters.js';
import { RocmForgeError } from '../../shared/errors.js';
import { MAX_RESULT_BYTES } from '../../shared/grpc/message-bytes.js';
import type { SplitKind } from '../../shared/split.js';
import {
  MOST_CHOSEN_SEQUENCES,
  MOST_SEQUENCES,
  MOST_STATE_SNAPSHOTS,
  MOST_STEP_TOKENS,
} from '../../shared/step-limits.js';
import type { KvCacheType } from '../kernels/index.js';
import type { Fusion } from '../layers/fusions.js';
import type { Limits } from '../model/limits.js';

/** Load parameters that a gateway sends. */
export interface LoadOptions {
  readonly path: string;
  /** Path or descriptor of the model's file or of each of its parts, if not `path`: descriptors that a gateway passed on. */
  readonly openPaths?: readonly string[] | undefined;
  readonly kvCacheType: KvCacheType;
  readonly maxContext: number;
  /** 0: as fits the device. */
  readonly maxSequences: number;
  /** 0: 512, or maxSequences when that is more; of an encoder at least maxContext. */
  readonly maxStepTokens: number;
  /** 0: room for maxContext × maxSequences tokens. */
  readonly kvMemoryBytes: number;
  /** Number of recurrent states; absent: as fits the device. */
  readonly stateSnapshots?: number | undefined;
  /** The most draft tokens in a slice of a model with recurrent states; absent: none. Other models take any number. */
  readonly draftTokens?: number | undefined;
  /** Load the block that predicts further tokens, if the file has one and the model is not split. */
  readonly predicts?: boolean | undefined;
  /**
   * Layers, the last that have any, whose routed experts stay in the host's memory and are computed there; auto: as few as let
   * the model fit. Default: none.
   */
  readonly cpuExperts?: number | 'auto' | undefined;
  /** Likely number of layers where `cpuExperts` is auto: few loads are tried if it is near the answer. */
  readonly likelyCpuExperts?: number | undefined;
  /** Memory of each GPU that the load may take; absent or 0: what is free. */
  readonly deviceMemoryBytes?: number | undefined;
  /** Refuse a file with another content identity; empty: take any. */
  readonly fingerprint: string;
  /** Default: fused. */
  readonly attention?: Limits['attention'] | undefined;
  /** Split of the model over several devices; default: between layers. */
  readonly split?: SplitKind | undefined;
  /** Shares of the devices in a split between layers; default: by their free memory. */
  readonly shares?: readonly number[] | undefined;
  /** True if a second executor is to fit on the devices. */
  readonly hasSpare?: boolean | undefined;
  /** Descriptor of memory of the host, which outlives this process, for copies of KV blocks; absent: no frame may ask for copies. */
  readonly savedMemory?: number | undefined;
  /** For tests and measurements: what crosses between devices goes through the host's memory, even where they reach each other. */
  readonly throughHost?: boolean | undefined;
  /** For tests: fusions that are not used. */
  readonly without?: readonly Fusion[];
}

/** Rows of a step where nobody says otherwise: a longer one would hold up those that generate. */
export const STEP_TOKENS = 512;
/** The same with experts in host memory, which cross the bus once a step, for as many tokens as memory allows. */
export const STREAMED_STEP_TOKENS = 2048;

/**
 * Sequences at once where nobody says how many: on the host few, for which it has the processors; on a GPU the first of
 * these that leaves each of them room for {@link EXPECTED_CONTEXT} positions, or for as many as it may have.
 */
export const HOST_SEQUENCES = 4;
export const GPU_SEQUENCES: readonly number[] = [MOST_CHOSEN_SEQUENCES, 128, 64, 32, 16, 8, 4, 2, 1];
export const EXPECTED_CONTEXT = 2048;

/** Granted limits except KV blocks and snapshots, whose numbers depend on the memory that the rest leaves. */
export type OwnLimits = Omit<Limits, keyof BlockCounts | 'stateSnapshots'>;

/** KV blocks of each kind of layer. */
export type BlockCounts = Pick<Limits, 'kvBlocks' | 'windowed'>;

/** Upper limits, by the option of the command line: the blocks of a grid, and tables that JavaScript can hold. */
const MOST = {
  '--max-context': 2 ** 24,
  '--max-sequences': MOST_SEQUENCES,
  '--max-step-tokens': MOST_STEP_TOKENS,
} as const;

/** @param sequences where none are asked for @param leastStepTokens where their number is not given */
export function limitsFor(options: LoadOptions, sequences: number, leastStepTokens = STEP_TOKENS): OwnLimits {
  const { maxContext, kvCacheType, attention = 'fused' } = options;
  const maxSequences = options.maxSequences || Math.min(sequences, options.maxStepTokens || sequences);
  const maxStepTokens = options.maxStepTokens || Math.max(maxSequences, leastStepTokens);
  const given = { '--max-context': maxContext, '--max-sequences': maxSequences, '--max-step-tokens': maxStepTokens };
  for (const [option, most] of Object.entries(MOST)) {
    const value = given[option as keyof typeof MOST];
    if (value >= 1 && value <= most) continue;
    throw new RocmForgeError('INVALID_OPTION', `${option} is ${value}; it must be from 1 to ${most}`);
  }
  if (maxStepTokens < maxSequences) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `--max-step-tokens is ${maxStepTokens}; it must be at least --max-sequences, ${maxSequences}`,
    );
  }
  return { maxContext, maxSequences, maxStepTokens, kvCacheType, attention };
}

/** Bytes that the hidden states of a step may have, beside what else its result has. */
const MOST_HIDDEN_BYTES = (MAX_RESULT_BYTES * 3) / 4;

/**
 * Limits of an encoder: a sequence is in one step as a whole, and each row returns its hidden state.
 *
 * @throws RocmForgeError `INVALID_OPTION` for steps whose hidden states no message holds
 */
export function encoderLimits(options: LoadOptions, hiddenSize: number, sequences: number): OwnLimits {
  const most = Math.min(MOST_STEP_TOKENS, Math.floor(MOST_HIDDEN_BYTES / Float32Array.BYTES_PER_ELEMENT / hiddenSize));
  const { maxContext } = options;
  const limits = limitsFor(options, sequences, Math.max(STEP_TOKENS, maxContext));
  const { maxStepTokens } = limits;
  if (maxStepTokens > most) {
    const message = `--max-step-tokens is ${maxStepTokens}; an encoder of ${hiddenSize} elements a row has at most ${most} rows a step`;
    throw new RocmForgeError(
      'INVALID_OPTION',
      maxStepTokens === maxContext ? `${message}: lower --max-context` : message,
    );
  }
  return { ...limits, isEncoder: true };
}

/**
 * Snapshots of recurrent states: as many as are asked for, or two a slot, for the end of its prompt and for how far it is.
 *
 * @throws RocmForgeError `INVALID_OPTION`
 */
export function snapshotsFor(
  { stateSnapshots }: LoadOptions,
  { maxSequences, isRecurrent }: Pick<Limits, 'maxSequences' | 'isRecurrent'>,
): number {
  if (stateSnapshots === undefined) return isRecurrent ? 2 * maxSequences : 0;
  if (stateSnapshots > 0 && !isRecurrent) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `--state-snapshots is ${stateSnapshots}; it applies only to models with recurrent state`,
    );
  }
  if (stateSnapshots > MOST_STATE_SNAPSHOTS) {
    const most = `it must be at most ${MOST_STATE_SNAPSHOTS}`;
    throw new RocmForgeError('INVALID_OPTION', `--state-snapshots is ${stateSnapshots}; ${most}`);
  }
  return stateSnapshots;
}

/** Beyond the context it was trained for a model says nothing of use, whatever it costs. */
export function checkContext({ contextLength }: ModelParameters, maxContext: number): void {
  if (maxContext <= contextLength) return;
  throw new RocmForgeError('INVALID_OPTION', `--max-context ${maxContext} is more than the model's ${contextLength}`);
}
