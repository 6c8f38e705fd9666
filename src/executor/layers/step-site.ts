import type { ModelParameters } from '../../lib/gguf/model-parameters.js';
import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import type { LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import type { KvCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import type { Slots } from '../model/sampling.js';
import type { StepTables } from '../model/step-tables.js';
import type { Weights } from '../model/weights.js';
import type { AllReduce } from './all-reduce.js';
import type { Fusion } from './fusions.js';
import type { Products } from './products.js';
import type { RecordedModel } from './recorded-model.js';
import type { SingleToken } from './single-token.js';

/** All that the parts of a forward pass share while its launches are recorded. */
export interface StepSite {
  readonly device: Device;
  /** Memory of the pass, released with it. */
  readonly memory: DeviceScope;
  readonly plan: LaunchPlanRecorder;
  readonly recorded: RecordedModel;
  readonly model: ModelParameters;
  readonly weights: Weights;
  readonly limits: Limits;
  readonly cache: KvCache;
  /** Receives the memory of each part of recurrent states, `[states, …]` f32. */
  readonly states: DeviceBuffer[];
  readonly slots: Slots;
  readonly tables: StepTables;
  readonly fusions: ReadonlySet<Fusion>;
  readonly products: Products;
  /** Undefined where steps of one row are launched as all others. */
  readonly singleToken: SingleToken | undefined;
  /** Undefined where the model is no shard of a tensor split. */
  readonly ranks: AllReduce | undefined;
  /** The residual stream, `[max_step_tokens, hidden]` f32. */
  readonly x: DeviceBuffer;
  /** The rows of the step. */
  readonly tokens: Rows;
  /** The rows whose logits are wanted. */
  readonly samples: Rows;
}
