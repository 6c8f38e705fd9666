import { RocmForgeError } from '../../shared/errors.js';

/** @throws RocmForgeError `MODEL_UNSUPPORTED` for an encoder, which samples nothing */
export function requireDecoder({ isEncoder }: { readonly isEncoder?: boolean | undefined }): void {
  if (!isEncoder) return;
  const message = 'the model is an encoder, which generates nothing: bench and verify do not apply to it';
  throw new RocmForgeError('MODEL_UNSUPPORTED', message);
}
