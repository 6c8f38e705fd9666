import type { ArchitectureName } from '../../shared/gguf/servable-model.js';
import type { DeviceBuffer } from '../device/device.js';
import type { ForwardPass } from './forward-pass.js';
import { llama } from './llama.js';
import { qwen2 } from './qwen2.js';
import type { Weights } from './weights.js';

/** How one model family is wired from the operations of {@link ForwardPass}. */
export interface Architecture {
  /** `general.architecture` of its files. */
  readonly name: ArchitectureName;
  /** Records a whole step, from the embedding to the sampled tokens. */
  record(
    forward: ForwardPass,
    weights: Weights,
    rope: { readonly cosine: DeviceBuffer; readonly sine: DeviceBuffer },
  ): void;
}

export const architectures: Readonly<Record<ArchitectureName, Architecture>> = { llama, qwen2 };
