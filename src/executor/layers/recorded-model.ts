import type { ModelParameters } from '../../lib/gguf/model-parameters.js';
import type { DeviceBuffer } from '../device/device.js';
import type { Rows } from '../kernels/launch-plan.js';
import type { KvCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import type { Attention, StageGraph } from '../model/values.js';
import type { Weights } from '../model/weights.js';
import type { RankPlace } from './all-reduce.js';
import type { Fusion } from './fusions.js';
import type { RopeTables } from './paged-attention.js';

/** Receive buffers of a stage of a layer split. */
export interface StagePlace {
  /** Messages that may be on their way to it in its memory; 0: they come through the host's. */
  readonly receiveBuffers: number;
}

/** Arguments with which a model, or a stage of it, is recorded. */
export interface RecordedModel {
  readonly graph: StageGraph;
  /** Absent where the model is not split. */
  readonly stage?: StagePlace | undefined;
  /** Place in a tensor split, whose graph is a shard. */
  readonly rank?: RankPlace | undefined;
  readonly parameters: ModelParameters;
  readonly weights: Weights;
  readonly ropes: ReadonlyMap<Attention['rope'], RopeTables>;
  readonly limits: Limits;
  readonly cache: KvCache;
  /**
   * Hidden states of a step's rows after the output norm, `[max_step_tokens, hidden]` f32: a model with a prediction block writes
   * them; the block reads them and writes those of its sampled rows to the first.
   */
  readonly hiddenRows?: DeviceBuffer | undefined;
  /** For a prediction block: the model's slots, whose block tables it reads. */
  readonly slots?: DeviceBuffer | undefined;
  /** Fusions that are not to be used; for tests, which hold each against the launches it replaces. */
  readonly without?: readonly Fusion[];
}

/** The residual stream and the rows that a value is computed for: those of the step, or those whose logits are wanted. */
export interface Stream {
  /** `[rows, hidden]` f32 */
  readonly x: DeviceBuffer;
  readonly rows: Rows;
}

/** A plan's two parts, by their numbers on the device. */
export interface PlanParts {
  readonly forward: number;
  readonly sampling: number;
}
