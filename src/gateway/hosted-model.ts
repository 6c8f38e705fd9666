import path from 'node:path';
import { PREDICTION } from '../lib/gguf/harmless.js';
import type { EventLoopBudget } from '../shared/event-loop-budget.js';
import type { Fault } from '../shared/fault-log.js';
import { createLogger, type Logger } from '../shared/log.js';
import { readOptionFile } from '../shared/option-file.js';
import { MOST_DRAFT_TOKENS } from '../shared/step-limits.js';
import { workerFile } from '../shared/worker-file.js';
import type { ChangeableLimits } from './api/admin/admin-server.js';
import { Embeddings } from './api/embeddings.js';
import { Inference } from './api/inference.js';
import type { OfferedModel } from './api/models.js';
import type { TemplateSettings } from './chat/chat-template.js';
import { IdleUnloader } from './idle-unloader.js';
import { type GrammarCounts, Matchers } from './matching/matchers.js';
import type { ModelObserver } from './model-metrics.js';
import { refusalOf } from './model-status.js';
import { type GatewayOptions, KV_CACHE_TYPES, type ModelOptions } from './options.js';
import type { SupervisorOptions } from './replica/link/supervisor.js';
import { loadOf } from './replica/load.js';
import type { LoadQueue, ModelPlace } from './replica/load-queue.js';
import { Replica, type ReplicaOptions } from './replica/replica.js';
import { EncodeService } from './request/encoding/encode-service.js';
import { contentChanged, LoadedContent } from './request/model-file.js';
import { RequestRunner } from './request/runner.js';
import { readServedModel, type ServedModel } from './request/served-model.js';
import { Router } from './router.js';
import type { Trust } from './trust/trust.js';

const LOAD_TIMEOUT_MS = 120_000;

/** A model that a gateway serves: what it knows of it, and what computes it. */
export interface HostedModel extends OfferedModel {
  readonly router: Router;
  readonly replicas: readonly Replica[];
  /** Limits of each replica; operators may change them while it serves. */
  readonly queueLimits: readonly ChangeableLimits[];
  readonly idleUnloader: IdleUnloader;
  /** When it is loaded first: with the gateway, with its first request, or by command. */
  readonly loadMode: GatewayOptions['load'];
  /** Its place among the models that are loaded at once; absent: there is no limit of them. */
  readonly place: ModelPlace | undefined;
  readonly kvCacheType: GatewayOptions['kvCacheType'];
  /** True if this gateway starts and ends its executors. */
  readonly ownsExecutors: boolean;
  readonly observer: ModelObserver;
  readonly grammars: () => GrammarCounts;
  /** Ends the executors and the threads, and closes the model file. */
  close(): Promise<void>;
}

/** State that all models of a gateway share. */
export interface SharedParts {
  readonly template: TemplateSettings;
  readonly trust: Trust;
  readonly log: Logger;
  /** Budget of this thread for all of them. */
  readonly budget: EventLoopBudget;
  /** Some replica's state is another. */
  readonly onState: () => void;
  readonly onFault: (fault: Fault) => void;
  /** Limit of the models that are loaded at once; absent: there is none. */
  readonly loadQueue: LoadQueue | undefined;
}

/**
 * Opens one of a gateway's models and reads what is to be known of it before anything is loaded.
 *
 * @throws RocmForgeError see {@link readServedModel}
 */
export function openModel(
  { model, modelName, modelAlias }: ModelOptions,
  options: GatewayOptions,
  template: TemplateSettings,
): ServedModel {
  return readServedModel(model, {
    ...(modelName !== undefined && { name: modelName }),
    ...(options.maxContext !== undefined && { maxContext: options.maxContext }),
    maxStepTokens: options.maxStepTokens,
    ...(options.maxPriority !== undefined && { maxPriority: options.maxPriority }),
    ...(options.anyModelName && { anyName: true }),
    ...(modelAlias !== undefined && { aliases: modelAlias }),
    ...(options.seed !== undefined && { seed: options.seed }),
    template,
    ...(options.toolParser !== undefined && { toolParser: options.toolParser }),
    ...(options.reasoningParser !== undefined && { reasoningParser: options.reasoningParser }),
    ...(options.pooling !== undefined && { pooling: options.pooling }),
  });
}

/** All that serves one model: threads for its texts, replicas, and what places requests on them. Nothing is started. */
export function hostModel(
  served: ServedModel,
  options: GatewayOptions,
  observer: ModelObserver,
  shared: SharedParts,
): HostedModel {
  const { file: modelFile, tokenizer, hasChatTemplate, facts } = served;
  const { trust, log } = shared;
  const predicts = options.speculate === 'mtp' && served.predicts;
  const unused = served.unused.filter(({ why }) => !predicts || why !== PREDICTION);
  if (unused.length > 0) {
    const tensors = unused.reduce((sum, { tensors }) => sum + tensors.length, 0);
    log.info({ tensors }, `not used of the model file: ${unused.map(({ why }) => why).join('; ')}`);
  }
  const encoder = new EncodeService({
    ...{ modelFile, tokenizer, hasChatTemplate, facts, template: shared.template, budget: shared.budget },
    workerFile: workerFile('encode-worker'),
  });
  if (options.speculate === 'mtp' && !served.predicts) {
    log.warn(
      { model: served.name },
      'the model file has no multi-token-prediction block: tokens are drafted by prompt lookup',
    );
  }
  const { standby = 0, allowOtherArithmetic } = options;
  const executors = [options.executor, ...(options.moreExecutors ?? [])];
  const queueLimits: ChangeableLimits[] = [];
  const replicas = executors.map((executor, i): Replica => {
    const replicaOptions: ReplicaOptions & ChangeableLimits = {
      ...options,
      supervisor: supervisorOptions({ ...options, executor }, served),
      queueShareOf: (principal) => trust.limiter.queueShareOf(principal),
    };
    queueLimits.push(replicaOptions);
    const replica: Replica = new Replica(
      replicaOptions,
      {
        state: (state) => {
          idleUnloader.heard(i, state);
          place?.heard();
          shared.onState();
        },
        progress: (done, total) => options.onProgress?.(done, total),
        admitted: (waitedMs) => observer.queued(waitedMs / 1000),
        fault: (fault) => shared.onFault(fault),
        restarts: (reason) => observer.executorLost(reason),
        recovered: (seconds) => observer.executorRecovered(seconds),
        executorLost: () => router.executorLost(replica),
        hasRoom: () => router.hasRoom(replica),
      },
      executors.length > 1 ? log.child({ replica: i }) : log,
    );
    return replica;
  });
  // Processes elsewhere are updated and restarted one by one: one of them does not keep the others from serving.
  const ownsExecutors = executors.every((executor) => 'spawn' in executor);
  const isOnDemand = options.load === 'on-demand' || options.load === 'on-command';
  const place: ModelPlace | undefined = shared.loadQueue?.add(
    {
      name: served.name,
      active: () => router.active,
      states: () => replicas.map(({ state }) => state),
      load: () => router.startExecutors(),
      unload: () => {
        router.unloadModel();
        return replicas.every(({ state, isSaving }) => isSaving || state !== 'serving');
      },
    },
    !isOnDemand,
  );
  const router: Router = new Router(replicas, {
    ...{ standby, allowOtherArithmetic, startsWithSome: !ownsExecutors, place },
    loadsOnRequest: options.load !== 'on-command',
  });
  const { idleUnloadMs, kvCacheType } = options;
  const idleUnloader: IdleUnloader = new IdleUnloader(
    router,
    { replicas: replicas.length, onDemand: isOnDemand, idleUnloadMs, isUnloadable: isOnDemand || place !== undefined },
    log,
  );
  const availability = () => ({
    ...{ ready: router.isReady, device: router.device, loaded: router.isLoaded },
    refusal: refusalOf(router, replicas),
  });
  const audit = createLogger('audit');
  const ended: ModelObserver['requestEnded'] = (outcome, seconds) => {
    place?.used();
    observer.requestEnded(outcome, seconds);
  };
  const observed = { ...observer, requestEnded: ended };
  const runner = new RequestRunner(served.name, tokenizer, router, observed, trust.limiter, audit);
  const matchers = new Matchers({ tokenizer });
  const { warmUpMs } = options;
  const warmingUp = warmUpMs === undefined ? undefined : setTimeout(() => matchers.warmUp(), warmUpMs).unref();
  const inference = new Inference(served, encoder, runner, matchers, availability, {
    streamInterval: options.streamInterval,
    speculates: options.speculate !== 'off',
    predicts,
  });
  return {
    ...{
      served,
      inference,
      embeddings: new Embeddings(served, encoder, runner),
      encoder,
      router,
      replicas,
      queueLimits,
      idleUnloader,
      ownsExecutors,
      observer,
      loadMode: options.load,
      place,
      kvCacheType,
    },
    load: () => loadOf(router.counts),
    parallelism: () => (replicas[0] as Replica).parallelism,
    wake: (signal) => router.wake(signal),
    expect: () => router.expect(),
    keepAlive: (idleMs) => idleUnloader.keepAlive(idleMs),
    unloadsAt: () => idleUnloader.unloadsAt(),
    unload: (signal) => idleUnloader.unload(signal),
    isUnloaded: () => router.isModelUnloaded && !place?.isWaiting,
    grammars: () => matchers.counts,
    close: async () => {
      idleUnloader.stop();
      clearTimeout(warmingUp);
      await router.stop();
      await encoder.close();
      await matchers.close();
      modelFile.close();
    },
  };
}

/** @throws RocmForgeError `INVALID_OPTION` for a template that cannot be read */
export function templateOf({
  chatTemplate,
  chatTemplateKwargs,
  templateDate,
  toolsFallback,
}: GatewayOptions): TemplateSettings {
  const source =
    chatTemplate === undefined
      ? undefined
      : readOptionFile({ option: 'chat-template', path: chatTemplate }).toString('utf8');
  return { source, variablesJson: chatTemplateKwargs, tellsDate: templateDate, describesTools: toolsFallback };
}

/** An executor elsewhere has a file of its own, and may split the model in its own way: it is compared with itself alone. */
function confirmedElsewhere({ file: { path } }: ServedModel): SupervisorOptions['confirmContent'] {
  const loaded = new LoadedContent();
  return (checksum) => {
    if (!loaded.isSame(checksum)) throw contentChanged(path);
  };
}

function supervisorOptions(options: GatewayOptions, model: ServedModel): SupervisorOptions {
  const { executor } = options;
  return {
    executor:
      'spawn' in executor ? { spawn: { ...executor.spawn, modelDescriptors: model.file.descriptors } } : executor,
    checkModelFile: () => model.file.check(),
    confirmContent: 'spawn' in executor ? (checksum) => model.file.confirm(checksum) : confirmedElsewhere(model),
    vocabularySize: model.vocabularySize,
    stepTimeoutMs: options.stepTimeoutMs,
    loadTimeoutMs: options.loadTimeoutMs ?? LOAD_TIMEOUT_MS,
    maxRestarts: options.maxRestarts,
    recoveryTimeoutMs: options.recoveryTimeoutMs,
    probeIntervalMs: options.probeIntervalMs,
    keepsMemory: options.keepsMemory,
    savesMemory: (options.kvHostBytes ?? 0) > 0,
    hasSpare: options.hasSpare,
    spareOnHostMs: options.spareOnHostMs,
    allowOtherArithmetic: options.allowOtherArithmetic,
    stateFolder: options.stateFolder,
    onDemand: options.load === 'on-demand' || options.load === 'on-command',
    load: {
      // An executor elsewhere may run in another folder.
      path: 'spawn' in executor ? model.file.path : path.resolve(model.file.path),
      kvCacheType: KV_CACHE_TYPES[options.kvCacheType],
      maxContext: model.contextLength,
      maxSequences: options.maxSequences,
      maxStepTokens: options.maxStepTokens,
      kvMemoryBytes: BigInt(options.kvMemoryBytes),
      cpuExperts: options.cpuExperts ?? (options.fit === 'off' ? 0 : undefined),
      deviceMemoryBytes: BigInt(options.deviceMemoryBytes ?? 0),
      // Without a prefix cache nobody would look for them.
      stateSnapshots: options.stateSnapshots ?? (model.isRecurrent && !options.prefixCache ? 0 : undefined),
      predicts: options.speculate === 'mtp' && model.predicts,
      draftTokens: options.speculate === 'off' ? 0 : MOST_DRAFT_TOKENS,
      fingerprint: model.file.identity,
    },
  };
}
