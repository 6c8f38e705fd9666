import { RocmForgeError } from '../../shared/errors.js';
import { KvCacheType, type LoadModelRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { packageVersion } from '../../shared/package.js';
import { MOST_DRAFT_TOKENS } from '../../shared/step-limits.js';
import type { LoadOptions } from '../load/load-options.js';

/** @throws RocmForgeError `EXECUTOR_PROTOCOL`: what two releases mean by a step differs */
export function checkRelease(gateway: string): void {
  if (gateway === packageVersion) return;
  throw new RocmForgeError(
    'EXECUTOR_PROTOCOL',
    `this executor has version ${packageVersion}, the gateway "${gateway}": both must have the same version`,
  );
}

/** Element types of a KV cache as a gateway asks for them. */
const KV_CACHE_TYPES: Readonly<Partial<Record<KvCacheType, LoadOptions['kvCacheType']>>> = {
  [KvCacheType.UNSPECIFIED]: 'f16',
  [KvCacheType.F32]: 'f32',
  [KvCacheType.F16]: 'f16',
  [KvCacheType.Q8_0]: 'q8_0',
};

/** Options of the process that a load depends on. `savedMemory` is a descriptor of memory of the host for KV blocks, which outlives it. */
export interface LoadingProcess
  extends Pick<LoadOptions, 'attention' | 'split' | 'shares' | 'hasSpare' | 'savedMemory'> {
  readonly modelDescriptors?: readonly number[] | undefined;
}

/** Load options from a request, and from those of the process. @throws RocmForgeError `INVALID_OPTION` */
export function loadOptionsOf(request: LoadModelRequest, process: LoadingProcess): LoadOptions {
  const { attention, split, shares, modelDescriptors, hasSpare, savedMemory } = process;
  const openPaths = modelDescriptors?.map((descriptor) => `/proc/self/fd/${descriptor}`);
  return { ...requestedOptions(request), attention, split, shares, openPaths, hasSpare, savedMemory };
}

function requestedOptions(request: LoadModelRequest): LoadOptions {
  const kvCacheType = KV_CACHE_TYPES[request.kvCacheType];
  if (kvCacheType === undefined) {
    throw new RocmForgeError('INVALID_OPTION', `no type ${request.kvCacheType} of KV cache`);
  }
  if (request.draftTokens > MOST_DRAFT_TOKENS) {
    throw new RocmForgeError('INVALID_OPTION', `${request.draftTokens} draft tokens; at most ${MOST_DRAFT_TOKENS}`);
  }
  return {
    path: request.path,
    kvCacheType,
    maxContext: request.maxContext,
    maxSequences: request.maxSequences,
    maxStepTokens: request.maxStepTokens,
    kvMemoryBytes: Number(request.kvMemoryBytes),
    stateSnapshots: request.stateSnapshots,
    draftTokens: request.draftTokens,
    predicts: request.predicts,
    cpuExperts: request.cpuExperts ?? 'auto',
    deviceMemoryBytes: Number(request.deviceMemoryBytes),
    fingerprint: request.fingerprint,
  };
}
