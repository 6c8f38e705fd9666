import type { Registry } from 'prom-client';
import { MODEL_METRICS, REQUEST_METRICS } from '../shared/metric-table.js';
import type { IdleUnloader } from './idle-unloader.js';
import type { GrammarCounts } from './matching/matchers.js';
import { registerMetrics, type Series, watchMetrics } from './registered-metrics.js';
import { loadOf } from './replica/load.js';
import type { ReplicaCounts } from './replica/replica-counts.js';
import type { CompletionTotals } from './request/completion-totals.js';
import type { CompletionCounts } from './request/generation.js';
import type { RequestObserver } from './request/runner.js';

/** Why executors end, as far as it is known beforehand. */
const USUAL_ENDS = [
  ...['hung', 'connection', 'answer', 'out_of_memory', 'replaced'],
  ...['SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGBUS', 'exit_86'],
];

/** A model of which metrics tell. */
export interface CountedModel {
  /** Its `model_name`. */
  readonly name: string;
  /** Read when metrics are asked for, rather than told of each change. */
  readonly counts: () => ReplicaCounts;
  readonly grammars: () => GrammarCounts;
  readonly idleUnloader: () => Pick<IdleUnloader, 'isUnloaded' | 'counters'>;
  /** False if an operator has unloaded it. */
  readonly admits: () => boolean;
  /** True if it waits for another to be unloaded before it is loaded. */
  readonly waitsForLoad: () => boolean;
}

/** The label of what is told of executors: where there is one model alone, it is not told apart. */
const labelling =
  ({ length }: readonly CountedModel[]) =>
  ({ name }: CountedModel): Record<string, string> =>
    length > 1 ? { model_name: name } : {};

/** Registers values of models' executors and of what they hold. */
export function watchModels(registry: Registry, models: readonly CountedModel[]): void {
  const labelsOf = labelling(models);
  watchMetrics(registry, MODEL_METRICS, models.length > 1, () =>
    models.flatMap((model): Series<typeof MODEL_METRICS>[] => {
      const labels = labelsOf(model);
      const { blockTokens, kvBlocks } = loadOf(model.counts());
      return [
        [labels, valuesOf(model)],
        [{ ...labels, block_size: blockTokens, num_gpu_blocks: kvBlocks }, { cacheConfig: 1 }],
      ];
    }),
  );
}

/** Values of a model now. */
function valuesOf(model: CountedModel): Readonly<Record<Exclude<keyof typeof MODEL_METRICS, 'cacheConfig'>, number>> {
  const { counters, isUnloaded } = model.idleUnloader();
  const counts = model.counts();
  return {
    ...counts,
    ...model.grammars(),
    ...counters,
    kvUsage: loadOf(counts).kvUsage,
    stepAge: counts.stepAgeMs / 1000,
    isUnloaded: Number(isUnloaded),
    isUnloadedByOperator: Number(!model.admits()),
    waitsForLoad: Number(model.waitsForLoad()),
  };
}

/** Events of a model's requests and executors, to be counted. */
export interface ModelObserver extends RequestObserver {
  /** A sequence was given its first slot. */
  queued(seconds: number): void;
  executorLost(reason: string): void;
  executorRecovered(seconds: number): void;
}

/**
 * Counts what happens to requests and executors.
 *
 * @returns an observer for each of the models, in their order
 */
export function observeModels(
  registry: Registry,
  models: readonly CountedModel[],
  completions: CompletionTotals,
): readonly ModelObserver[] {
  const labelsOf = labelling(models);
  // A token is one addition here; the counter has them when it is read.
  const newTokens = models.map(({ name }) => ({ labels: { model_name: name }, count: 0 }));
  const metrics = registerMetrics(registry, REQUEST_METRICS, models.length > 1, {
    generationTokens() {
      for (const tokens of newTokens) {
        this.inc(tokens.labels, tokens.count);
        tokens.count = 0;
      }
    },
  });
  const { promptTokens, requests, restarts, queueTime, timeToFirstToken, requestLatency, recovery } = metrics;
  return models.map((model, i): ModelObserver => {
    const labels = { model_name: model.name };
    // With a label a metric is there once it has a value: from the start it is 0.
    promptTokens.inc(labels, 0);
    for (const zero of [queueTime, timeToFirstToken, requestLatency]) zero.zero(labels);
    if (models.length > 1) recovery.zero(labels);
    // A series that begins at 1 does not show that it rose.
    for (const reason of USUAL_ENDS) restarts.inc({ ...labelsOf(model), reason }, 0);
    const tokens = newTokens[i] as (typeof newTokens)[number];
    const observeLatency = metrics.interTokenLatency.labels(labels);
    return {
      requestStarted: (count) => promptTokens.inc(labels, count),
      queued: (seconds) => queueTime.observe(labels, seconds),
      firstToken: (seconds) => timeToFirstToken.observe(labels, seconds),
      tokens: (count, secondsSinceLast) => {
        tokens.count += count;
        if (secondsSinceLast !== undefined) observeLatency(secondsSinceLast);
      },
      completionEnded: (counts: CompletionCounts) => completions.add(counts),
      requestEnded: (outcome, seconds) => {
        requests.inc({ ...labels, outcome });
        if (seconds !== undefined) requestLatency.observe(labels, seconds);
      },
      executorLost: (reason) => restarts.inc({ ...labelsOf(model), reason }),
      executorRecovered: (seconds) => recovery.observe(labelsOf(model), seconds),
    };
  });
}
