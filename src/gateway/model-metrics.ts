import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { IdleUnloader } from './idle-unloader.js';
import type { GrammarCounts } from './matching/matchers.js';
import { loadOf } from './replica/load.js';
import type { ReplicaCounts } from './replica/replica-counts.js';
import type { CompletionTotals } from './request/completion-totals.js';
import type { CompletionCounts } from './request/generation.js';
import type { RequestObserver } from './request/runner.js';
import { TokenHistogram } from './token-histogram.js';

const LATENCY_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120];
const TOKEN_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5];

/** Why executors end, as far as it is known beforehand. */
const USUAL_ENDS = ['hung', 'connection', 'SIGKILL', 'SIGSEGV', 'SIGABRT', 'SIGBUS', 'exit_86'];

/** A model of which metrics tell. */
export interface CountedModel {
  /** Its `model_name`. */
  readonly name: string;
  /** Read when metrics are asked for, rather than told of each change. */
  readonly counts: () => ReplicaCounts;
  readonly grammars: () => GrammarCounts;
  readonly idleUnloader: () => Pick<IdleUnloader, 'isUnloaded' | 'counters'>;
  /** True if it waits for another to be unloaded before it is loaded. */
  readonly waitsForLoad: () => boolean;
}

/** The label of what is told of executors: where there is one model alone, it is not told apart. */
const labelling = (models: readonly CountedModel[]) => ({
  labelNames: models.length > 1 ? ['model_name'] : [],
  labelsOf: ({ name }: CountedModel): Record<string, string> => (models.length > 1 ? { model_name: name } : {}),
});

/** Tells of models' executors and of what they hold. */
export function watchModels(registry: Registry, models: readonly CountedModel[]): void {
  const { labelNames, labelsOf } = labelling(models);
  const of = (read: (counts: ReplicaCounts) => number) => (model: CountedModel) => read(model.counts());
  const gaugeOf = (name: string, help: string, read: (model: CountedModel) => number): void => {
    new Gauge({
      name: `rocmforge_${name}`,
      help,
      labelNames,
      registers: [registry],
      collect() {
        for (const model of models) this.set(labelsOf(model), read(model));
      },
    });
  };
  const totalOf = (name: string, help: string, read: (model: CountedModel) => number): void => {
    new Counter({
      name: `rocmforge_${name}`,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        for (const model of models) this.inc(labelsOf(model), read(model));
      },
    });
  };
  const gauge = (name: string, help: string, read: (counts: ReplicaCounts) => number) => gaugeOf(name, help, of(read));
  const total = (name: string, help: string, read: (counts: ReplicaCounts) => number) => totalOf(name, help, of(read));

  gauge('num_requests_running', 'Sequences with a slot', (counts) => counts.running);
  gauge('num_requests_waiting', 'Sequences that wait for a slot', (counts) => counts.waiting);
  gauge(
    'kv_cache_usage_perc',
    'Part of the KV blocks in use, of the kind that is fuller, 0 to 1',
    (counts) => loadOf(counts).kvUsage,
  );
  gauge('state_snapshots', 'Snapshots of recurrent states that there are', (counts) => counts.stateSnapshots);
  gauge(
    'state_snapshots_kept',
    'Snapshots of recurrent states that can be found',
    (counts) => counts.keptStateSnapshots,
  );
  new Gauge({
    name: 'rocmforge_cache_config_info',
    help: 'Tokens of a KV block and number of blocks, as labels',
    labelNames: [...labelNames, 'block_size', 'num_gpu_blocks'],
    registers: [registry],
    collect() {
      // The values of the previous executor are gone.
      this.reset();
      for (const model of models) {
        const { blockTokens, kvBlocks } = loadOf(model.counts());
        this.set({ ...labelsOf(model), block_size: blockTokens, num_gpu_blocks: kvBlocks }, 1);
      }
    },
  });
  total('num_preemptions_total', 'Sequences that gave up their blocks to others', (counts) => counts.preemptions);
  total(
    'slot_preemptions_total',
    'Sequences preempted from their slot for another client, or because their client stopped reading',
    (counts) => counts.slotPreemptions,
  );
  total('prefix_cache_hit_tokens_total', 'Prompt tokens found in the prefix cache', (counts) => counts.cachedTokens);
  total('steps_total', 'Steps planned', (counts) => counts.steps);
  total(
    'spec_decode_num_drafts_total',
    'Sequences in steps that had draft tokens, once for each step',
    (counts) => counts.drafts,
  );
  total('spec_decode_num_draft_tokens_total', 'Draft tokens computed', (counts) => counts.draftTokens);
  total(
    'spec_decode_num_accepted_tokens_total',
    'Draft tokens that were right',
    (counts) => counts.acceptedDraftTokens,
  );
  total(
    'spec_decode_num_mtp_draft_tokens_total',
    'Draft tokens of the multi-token-prediction block',
    (counts) => counts.predictedTokens,
  );
  total(
    'spec_decode_num_mtp_accepted_tokens_total',
    'Draft tokens of the multi-token-prediction block that were right',
    (counts) => counts.acceptedPredictedTokens,
  );
  total(
    'mask_misses_total',
    'Tokens computed again because their mask had not come in time',
    (counts) => counts.maskMisses,
  );
  total('discarded_tokens_total', 'Tokens computed ahead and discarded', (counts) => counts.discardedTokens);
  gauge('executor_up', 'Executors that serve', (counts) => counts.serving);
  gauge('executor_spares', 'Executors on standby', (counts) => counts.spares);
  gauge(
    'executor_spares_missing',
    'Replicas with --spare for which no executor can be on standby',
    (counts) => counts.missingSpares,
  );
  gauge('executor_epoch', 'Executors started so far', (counts) => counts.executors);
  gauge(
    'executor_last_step_age_seconds',
    'Age of the step under way, 0 when there is none',
    (counts) => counts.stepAgeMs / 1000,
  );
  total('requests_replayed_total', 'Sequences resumed after the loss of an executor', (counts) => counts.replayed);
  total(
    'recovery_kept_tokens_total',
    'Tokens of resumed sequences whose keys and values were still in memory',
    (counts) => counts.keptTokens,
  );
  total(
    'recovery_recomputed_tokens_total',
    'Tokens of resumed sequences that were computed again',
    (counts) => counts.recomputedTokens,
  );
  total(
    'recovery_restored_weights_total',
    'Allocations of weights found damaged after the loss of an executor and loaded again',
    (counts) => counts.restoredWeights,
  );
  total('requests_quarantined_total', 'Requests that made the executor fault alone', (counts) => counts.quarantined);
  total(
    'requests_non_finite_total',
    'Requests ended because their logits were NaN or infinite',
    (counts) => counts.nonFinite,
  );
  total(
    'saturated_activations_total',
    'Activations beyond f16’s range, for which its largest number stood',
    (counts) => counts.saturatedActivations,
  );
  gaugeOf(
    'grammar_engine_bytes',
    'Memory of token tries, automata and masks that all grammars share',
    (model) => model.grammars().engineBytes,
  );
  gaugeOf(
    'grammar_cache_bytes',
    'Memory of grammars kept for later requests',
    (model) => model.grammars().grammarBytes,
  );
  gaugeOf('grammar_cache_entries', 'Grammars kept for later requests', (model) => model.grammars().grammars);
  totalOf('grammar_cache_evictions_total', 'Grammars evicted from the cache', (model) => model.grammars().evictions);
  gaugeOf(
    'model_unloaded',
    '1 while the model is unloaded: until the next request, or until an operator loads it',
    (model) => Number(model.idleUnloader().isUnloaded),
  );
  gaugeOf('model_waits_for_load', '1 while the model waits for another to be unloaded', (model) =>
    Number(model.waitsForLoad()),
  );
  totalOf('model_loads_total', 'Executors that loaded the model because a request came', (model) => {
    return model.idleUnloader().counters.loads;
  });
  totalOf('model_unloads_total', 'Executors ended because the model was idle, or by an operator', (model) => {
    return model.idleUnloader().counters.unloads;
  });
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
  const registers = [registry];
  const { labelNames, labelsOf } = labelling(models);
  const ofModel = ['model_name'];
  const counter = (name: string, help: string) =>
    new Counter({ name: `rocmforge_${name}`, help, labelNames: ofModel, registers });
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name: `rocmforge_${name}`, help, labelNames: ofModel, buckets, registers });
  const promptTokens = counter('prompt_tokens_total', 'Tokens of prompts');
  // A token is one addition here; the counter has them when it is read.
  const newTokens = models.map(({ name }) => ({ labels: { model_name: name }, count: 0 }));
  new Counter({
    name: 'rocmforge_generation_tokens_total',
    help: 'Tokens generated',
    labelNames: ofModel,
    registers,
    collect() {
      for (const tokens of newTokens) {
        this.inc(tokens.labels, tokens.count);
        tokens.count = 0;
      }
    },
  });
  const requests = new Counter({
    name: 'rocmforge_request_total',
    help: 'Requests by how they ended',
    labelNames: [...ofModel, 'outcome'],
    registers,
  });
  const restarts = new Counter({
    name: 'rocmforge_executor_restarts_total',
    help: 'Executors that ended or were given up, by why: hung, connection, a signal or exit_CODE',
    labelNames: [...labelNames, 'reason'],
    registers,
  });
  const queueTime = histogram(
    'request_queue_time_seconds',
    'From a sequence’s arrival to its slot, a load that it waited for included',
    LATENCY_BUCKETS,
  );
  const timeToFirstToken = histogram('time_to_first_token_seconds', 'From request to first token', LATENCY_BUCKETS);
  const interTokenLatency = new TokenHistogram(
    { name: 'rocmforge_inter_token_latency_seconds', help: 'Between tokens', buckets: TOKEN_BUCKETS },
    registry,
  );
  const requestLatency = histogram('e2e_request_latency_seconds', 'From request to its end', LATENCY_BUCKETS);
  const recovery = new Histogram({
    name: 'rocmforge_executor_recovery_seconds',
    help: 'From an executor’s loss until another serves and all that it interrupted has made a step',
    labelNames,
    buckets: LATENCY_BUCKETS,
    registers,
  });
  return models.map((model, i): ModelObserver => {
    const labels = { model_name: model.name };
    // With a label a metric is there once it has a value: from the start it is 0.
    promptTokens.inc(labels, 0);
    for (const zero of [queueTime, timeToFirstToken, requestLatency]) zero.zero(labels);
    if (labelNames.length > 0) recovery.zero(labelsOf(model));
    // A series that begins at 1 does not show that it rose.
    for (const reason of USUAL_ENDS) restarts.inc({ ...labelsOf(model), reason }, 0);
    const tokens = newTokens[i] as (typeof newTokens)[number];
    const observeLatency = interTokenLatency.labels(labels);
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
        requestLatency.observe(labels, seconds);
      },
      executorLost: (reason) => restarts.inc({ ...labelsOf(model), reason }),
      executorRecovered: (seconds) => recovery.observe(labelsOf(model), seconds),
    };
  });
}
