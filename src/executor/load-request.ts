import { RocmForgeError } from '../shared/errors.js';
import { KvCacheType, type LoadModelRequest } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { packageVersion } from '../shared/package.js';
import type { LoadOptions } from './load-options.js';

/** @throws RocmForgeError `EXECUTOR_PROTOCOL`: what two releases mean by a step differs */
export function checkRelease(gateway: string): void {
  if (gateway === packageVersion) return;
  throw new RocmForgeError(
    'EXECUTOR_PROTOCOL',
    `this executor is of version ${packageVersion}, the gateway of "${gateway}": both must come from one release`,
  );
}

/** What is to be loaded. @throws RocmForgeError `INVALID_OPTION` */
export function loadOptions(request: LoadModelRequest): LoadOptions {
  if (![KvCacheType.UNSPECIFIED, KvCacheType.F16, KvCacheType.F32].includes(request.kvCacheType)) {
    throw new RocmForgeError('INVALID_OPTION', `no type ${request.kvCacheType} of KV cache`);
  }
  return {
    path: request.path,
    kvCacheType: request.kvCacheType === KvCacheType.F32 ? 'f32' : 'f16',
    maxContext: request.maxContext,
    maxSequences: request.maxSequences,
    maxStepTokens: request.maxStepTokens,
    kvMemoryBytes: Number(request.kvMemoryBytes),
    fingerprint: request.fingerprint,
  };
}
