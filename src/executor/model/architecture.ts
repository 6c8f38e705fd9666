import { RocmForgeError } from '../../shared/errors.js';
import type { DeviceBuffer } from '../device/device.js';
import type { ForwardPass } from './forward-pass.js';
import { llama } from './llama.js';
import { qwen2 } from './qwen2.js';
import type { Weights } from './weights.js';

/** How one model family is wired from the operations of {@link ForwardPass}. */
export interface Architecture {
  /** `general.architecture` of its files. */
  readonly name: string;
  /** Records a whole step, from the embedding to the sampled tokens. */
  record(
    forward: ForwardPass,
    weights: Weights,
    rope: { readonly cosine: DeviceBuffer; readonly sine: DeviceBuffer },
  ): void;
}

const architectures: ReadonlyMap<string, Architecture> = new Map([llama, qwen2].map((entry) => [entry.name, entry]));

/** The architecture of that name. Throws `MODEL_UNSUPPORTED`. */
export function findArchitecture(name: string): Architecture {
  const found = architectures.get(name);
  if (found === undefined) {
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `architecture ${name} is not built yet; built are ${[...architectures.keys()].join(', ')}`,
      { architecture: name },
    );
  }
  return found;
}
