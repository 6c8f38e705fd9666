import type { Registry } from 'prom-client';
import type { ModelState, ServerState } from './api/http/page/server-state.js';
import type { HostedModel } from './hosted-model.js';
import type { HostedModels } from './hosted-models.js';
import { modelStatus } from './model-status.js';
import { loadOf } from './replica/load.js';
import type { Replica } from './replica/replica.js';

/** State of a gateway for the page's server view, of the data that the admin API and the metrics have. */
export async function serverState({ all }: HostedModels, registry: Registry): Promise<ServerState> {
  const [generated, prompts, recoveries] = await Promise.all([
    readValues(registry, 'rocmforge_generation_tokens_total'),
    readValues(registry, 'rocmforge_prompt_tokens_total'),
    readValues(registry, 'rocmforge_executor_recovery_seconds'),
  ]);
  // With a single model, metrics of executors have no label.
  const nameOf = ({ served }: HostedModel) => (all.length > 1 ? served.name : undefined);
  return {
    uptime_seconds: Math.round(process.uptime()),
    models: all.map(
      (model): ModelState => ({
        name: model.served.name,
        state: modelStatus(model).state,
        replicas: model.replicas.map(replicaState),
        generated_tokens: readValue(generated, '_total', model.served.name),
        prompt_tokens: readValue(prompts, '_total', model.served.name),
        recoveries: readValue(recoveries, '_count', nameOf(model)),
        recovery_seconds: readValue(recoveries, '_sum', nameOf(model)),
      }),
    ),
  };
}

function replicaState({ state, device, counts, problem }: Replica) {
  const { running, waiting, slots, kvUsage: kv_usage } = loadOf(counts);
  return {
    ...{ state, device, executors: counts.executors, running, waiting, slots, kv_usage },
    problem: problem === undefined ? '' : `${problem.reason}: ${problem.message}`,
  };
}

interface MetricValue {
  readonly metricName: string;
  readonly value: number;
  readonly model: unknown;
}

async function readValues(registry: Registry, name: string): Promise<readonly MetricValue[]> {
  const metric = await registry.getSingleMetric(name)?.get();
  return (metric?.values ?? []).map((one) => ({
    metricName: 'metricName' in one ? String(one.metricName) : name,
    value: one.value,
    model: one.labels.model_name,
  }));
}

/** @param suffix of the name: a histogram has several values */
const readValue = (values: readonly MetricValue[], suffix: string, model: string | undefined): number =>
  values.find((one) => one.metricName.endsWith(suffix) && one.model === model)?.value ?? 0;
