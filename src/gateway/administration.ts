import type { Fault } from '../shared/fault-log.js';
import { packageVersion } from '../shared/package.js';
import type { Administered, ChangeableLimits } from './doors/admin/admin-server.js';
import type { Metrics } from './metrics.js';
import type { GatewayOptions } from './options.js';
import type { Replica } from './replica/replica.js';
import type { Router } from './router.js';
import { toldOptions } from './told-options.js';

/** The parts of a gateway that operators see and change. */
export interface AdministeredParts {
  readonly options: GatewayOptions;
  /** What requests call it. */
  readonly model: string;
  readonly router: Router;
  readonly replicas: readonly Replica[];
  /** Of each replica. */
  readonly queueLimits: readonly ChangeableLimits[];
  readonly faults: readonly Fault[];
  readonly metrics: Metrics;
}

/** A gateway as its operators have it. */
export function administrationOf(parts: AdministeredParts): Administered {
  const { options, model, router, replicas, queueLimits, faults, metrics } = parts;
  return {
    limits: queueLimits,
    replaceExecutors: async () => {
      await router.replaceExecutors();
      return router.counts.executors;
    },
    report: async () => ({
      version: packageVersion,
      nodeVersion: process.version,
      model,
      device: router.device,
      executorStates: replicas.map(({ state }) => state),
      executors: router.counts.executors,
      uptimeSeconds: process.uptime(),
      optionsJson: JSON.stringify(toldOptions(options)),
      faultsJson: JSON.stringify(faults),
      metrics: await metrics.registry.metrics(),
    }),
  };
}
