import { RocmForgeError } from '../shared/errors.js';
import type { Fault } from '../shared/fault-log.js';
import { packageVersion } from '../shared/package.js';
import type { Administered } from './api/admin/admin-server.js';
import type { HostedModel } from './hosted-model.js';
import type { HostedModels } from './hosted-models.js';
import type { Metrics } from './metrics.js';
import { modelStatus } from './model-status.js';
import type { GatewayOptions } from './options.js';
import { redactedOptions } from './redacted-options.js';

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
    models: () => models.all.map(modelStatus),
    loadModel: async (name) => {
      const model = operated(models, name);
      await model.router.load();
      return modelStatus(model);
    },
    unloadModel: async (name) => {
      const model = operated(models, name);
      await model.router.unload();
      return modelStatus(model);
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
      optionsJson: JSON.stringify(redactedOptions(options)),
      faultsJson: JSON.stringify(faults),
      metrics: await metrics.registry.metrics(),
    }),
  };
}

/** @throws RocmForgeError `MODEL_NOT_FOUND`; `INVALID_FIELD` for a model whose executors this gateway did not start */
function operated({ all }: HostedModels, name: string): HostedModel {
  const found = all.find(({ served: { facts } }) => [facts.modelName, ...(facts.modelAliases ?? [])].includes(name));
  const field = { field: 'model' };
  if (found === undefined) {
    const names = all.map(({ served }) => `"${served.name}"`).join(', ');
    throw new RocmForgeError('MODEL_NOT_FOUND', `there is no model "${name}" here, only ${names}`, field);
  }
  if (found.ownsExecutors) return found;
  const why = 'the executors of this model were not started by this gateway; end them where they run';
  throw new RocmForgeError('INVALID_FIELD', `model: ${why}`, field);
}
