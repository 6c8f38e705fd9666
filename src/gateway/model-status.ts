import type { RocmForgeError } from '../shared/errors.js';
import type { ModelStatus } from '../shared/generated/rocmforge/admin/v1/admin.js';
import type { HostedModel } from './hosted-model.js';
import { shuttingDown, unloadedByOperator } from './replica/model-loading.js';
import type { Router } from './router.js';

/** A model as its operators see it. */
export function modelStatus({ served, router, replicas, place }: HostedModel): ModelStatus {
  const problem = replicas.find((replica) => replica.problem !== undefined)?.problem;
  return {
    name: served.name,
    state: stateOf({ router, replicas, place }),
    admits: router.admits && !needRestart(replicas),
    active: router.active,
    executors: router.counts.serving,
    problem: problem === undefined ? '' : `${problem.reason}: ${problem.message}`,
  };
}

/** True if the model file was written to: requests are rejected until the gateway is restarted. */
const needRestart = (replicas: HostedModel['replicas']): boolean => replicas.every(({ needsRestart }) => needsRestart);

function stateOf({ router, replicas, place }: Pick<HostedModel, 'router' | 'replicas' | 'place'>): string {
  const states = replicas.map(({ state }) => state);
  if (states.includes('serving')) return router.admits ? 'loaded' : 'unloading';
  if (states.every((state) => state === 'unloaded')) return place?.isWaiting ? 'loading' : 'unloaded';
  if (states.includes('unloading')) return 'unloading';
  return states.includes('failed') || needRestart(replicas) ? 'failed' : 'loading';
}

/** Error that a request would get while the model is not ready; undefined if it would wait. A drain is announced before it refuses requests. */
export function refusalOf(
  router: Pick<Router, 'admits' | 'isDraining'>,
  replicas: HostedModel['replicas'],
): RocmForgeError | undefined {
  if (!router.admits) return unloadedByOperator();
  if (router.isDraining) return shuttingDown();
  return replicas.every(({ refusal }) => refusal !== undefined) ? replicas[0]?.refusal : undefined;
}
