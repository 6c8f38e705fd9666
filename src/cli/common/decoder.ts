import type { LoadedModel } from '../../executor/load/loaded-model.js';
import { RocmForgeError } from '../../shared/errors.js';

/** @throws RocmForgeError `MODEL_UNSUPPORTED` for an encoder, which samples nothing */
export function requireDecoder({ forward }: Pick<LoadedModel, 'forward'>): void {
  if (!forward.limits.isEncoder) return;
  const message = 'the model is an encoder, which generates nothing: bench and verify do not apply to it';
  throw new RocmForgeError('MODEL_UNSUPPORTED', message);
}
