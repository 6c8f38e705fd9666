import { RocmForgeError } from '../../shared/errors.js';
import type { SupervisorState } from './link/supervision.js';
import type { LoadWish } from './load-queue.js';

/** Interval (ms) at which replicas are polled that are being replaced, loaded or unloaded, and models that wait for that. */
export const POLL_MS = 20;

export const polled = () => new Promise<void>((resolve) => setTimeout(resolve, POLL_MS));
export const unloaded = (message: string) => new RocmForgeError('MODEL_UNLOADED', message);
export const unloadedByOperator = () =>
  unloaded('an operator has unloaded the model; it is loaded again with rocmforge admin --load-model');
export const shuttingDown = () => new RocmForgeError('SHUTTING_DOWN', 'this gateway is shutting down');

/** Error of requests for a model that is loaded by command alone. */
export function notLoaded(): RocmForgeError {
  const help = 'load it with POST /models/load or rocmforge admin --load-model';
  return new RocmForgeError('MODEL_NOT_LOADED', `the model is not loaded, and this request does not load it; ${help}`);
}

/**
 * Resolves when the model may be loaded, or the signal aborts.
 *
 * @param check throws when it is not to be loaded any more
 * @returns false if the signal aborted
 */
export async function granted(wish: LoadWish, check: () => void, signal?: AbortSignal): Promise<boolean> {
  while (!wish.isGranted) {
    await polled();
    if (signal?.aborted) return false;
    check();
  }
  return true;
}

/**
 * Resolves when all replicas serve.
 *
 * @param check throws when they are not to any more
 * @throws RocmForgeError why one cannot
 */
export async function allServing(
  replicas: readonly { readonly state: SupervisorState; readonly problem: RocmForgeError | undefined }[],
  check: () => void,
): Promise<void> {
  while (replicas.some(({ state }) => state !== 'serving')) {
    const ended = replicas.find(({ state }) => state === 'failed' || state === 'unloaded' || state === 'stopped');
    if (ended !== undefined) throw ended.problem ?? unloaded('the model could not be loaded');
    await polled();
    check();
  }
}
