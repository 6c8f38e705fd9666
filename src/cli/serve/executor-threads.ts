import { usableProcessors } from '../../executor/load/processors.js';

/** Compute threads of each executor that `serve` starts at once: only the host's are known to this program. */
export function executorThreads(options: {
  readonly executors?: readonly string[];
  readonly models: readonly string[];
  readonly load: string;
  readonly maxLoadedModels?: number;
  readonly gpus?: readonly number[];
  readonly split?: string;
  readonly replicas: number;
  readonly standby: number;
  readonly device?: string;
  readonly threads?: number;
}): readonly number[] {
  if (options.executors !== undefined) return [];
  const replicas = options.split === undefined ? (options.gpus?.length ?? options.replicas) : 1;
  const { load, maxLoadedModels = Number.POSITIVE_INFINITY } = options;
  const models = load === 'at-start' ? Math.min(options.models.length, maxLoadedModels) : 1;
  const executors = (replicas + options.standby) * models;
  const shared = Math.max(1, Math.floor(usableProcessors() / executors));
  const threads = options.device === 'host' ? (options.threads ?? shared) : 0;
  return Array.from({ length: executors }, () => threads);
}
