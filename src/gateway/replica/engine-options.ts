import type { RocmForgeError } from '../../shared/errors.js';
import type { QueueLimits } from './queue-limits.js';

export interface EngineOptions extends QueueLimits {
  /** Steps under way at once: 2 hides the stream's round trip, 1 is the plain twin. */
  readonly pipelineDepth: number;
  readonly prefixCache: boolean;
  /** Memory of the host for KV blocks and snapshots of a model that is unloaded, bytes; absent or 0: none. */
  readonly kvHostBytes?: number | undefined;
  /** True if streams may continue on executors with other numerics; default false. */
  readonly allowOtherArithmetic?: boolean | undefined;
  /** For tests: check the block accounting after every step and throw, instead of logging when nothing runs. */
  readonly checkEveryStep?: boolean | undefined;
  /** Time that a reader may block its stream before the generation is cancelled; default 30 s. */
  readonly pauseLimitMs?: number | undefined;
}

/** Observers of an engine's steps. */
export interface EngineListener {
  stepCompleted(): void;
  /** An executor serves, and every sequence that its predecessor ran has made a step, ended or moved. May be told repeatedly. */
  resumed(): void;
  /** The session's stream broke. */
  sessionLost(epoch: bigint, error: RocmForgeError, isAnswer: boolean): void;
  /** A sequence was given its first slot, this long after it came. */
  admitted(waitedMs: number): void;
  /** A step has left slots free, and nobody waits for them. */
  hasRoom(): void;
  /** Everything has been copied that {@link Engine.saveContents} was called for. */
  saved(): void;
  /** The copies are not needed any more. Resolves when their memory has been given back; until then nothing is copied there. */
  savedReleased(): Promise<void>;
}
