import type { Fault } from '../shared/fault-log.js';
import { packageVersion } from '../shared/package.js';
import type { Administered } from './doors/admin/admin-server.js';
import type { HostedModels } from './hosted-models.js';
import type { Metrics } from './metrics.js';
import type { GatewayOptions } from './options.js';
import { toldOptions } from './told-options.js';

/** The parts of a gateway that operators see and change. */
export interface AdministeredParts {
  readonly options: GatewayOptions;
  readonly models: HostedModels;
  readonly faults: readonly Fault[];
  readonly metrics: Metrics;
}

/** A gateway as its operators have it. */
export function administrationOf(parts: AdministeredParts): Administered {
  const { options, models, faults, metrics } = parts;
  return {
    limits: models.all.flatMap(({ queueLimits }) => queueLimits),
    replaceExecutors: async () => {
      await models.replaceExecutors();
      return models.counts.executors;
    },
    report: async () => ({
      version: packageVersion,
      nodeVersion: process.version,
      model: models.all.map(({ served }) => served.name).join(', '),
      device: models.device,
      executorStates: models.replicas.map(({ state }) => state),
      executorProblems: models.replicas.map(({ problem }) => (problem ? `${problem.reason}: ${problem.message}` : '')),
      executors: models.counts.executors,
      uptimeSeconds: process.uptime(),
      optionsJson: JSON.stringify(toldOptions(options)),
      faultsJson: JSON.stringify(faults),
      metrics: await metrics.registry.metrics(),
    }),
  };
}
