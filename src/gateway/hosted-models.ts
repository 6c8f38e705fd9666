import { asRocmForgeError, RocmForgeError } from '../shared/errors.js';
import { Models } from './api/models.js';
import { type HostedModel, hostModel, openModel, type SharedParts, templateOf } from './hosted-model.js';
import type { ModelObserver } from './model-metrics.js';
import type { GatewayOptions, ModelOptions } from './options.js';
import { LoadQueue } from './replica/load-queue.js';
import type { Replica } from './replica/replica.js';
import { addUp, type ReplicaCounts } from './replica/replica-counts.js';
import { inlineBudget } from './request/encoding/encode-service.js';
import type { ServedModel } from './request/served-model.js';

/**
 * Opens all models that options name, in their order.
 *
 * @throws RocmForgeError of the first that cannot be served; then none is left open
 */
export function openModels(options: GatewayOptions): readonly ServedModel[] {
  const opened: ServedModel[] = [];
  try {
    for (const model of modelsOf(options)) {
      const own = optionsFor(model, options);
      opened.push(openModel(model, own, templateOf(own)));
    }
  } catch (error) {
    for (const { file } of opened) file.close();
    throw error;
  }
  return opened;
}

const modelsOf = (options: GatewayOptions): readonly ModelOptions[] => [options, ...(options.moreModels ?? [])];

/** The options of a gateway as they hold for one of its models. */
const optionsFor = ({ own }: ModelOptions, options: GatewayOptions): GatewayOptions => ({ ...options, ...own });

/** The options of models, of which those beyond the limit are loaded on demand. */
function loadedFirst(models: readonly GatewayOptions[], most = models.length): readonly GatewayOptions[] {
  let loaded = 0;
  return models.map((model) => {
    if (model.load === 'on-demand' || model.load === 'on-command') return model;
    loaded += 1;
    return loaded > most ? { ...model, load: 'on-demand' } : model;
  });
}

/** All models of a gateway, each with executors, a queue and a tokenizer of its own. */
export class HostedModels {
  readonly all: readonly HostedModel[];
  /** As servers have them. */
  readonly offered: Models;
  private readonly loadQueue: LoadQueue | undefined;

  /**
   * @param served at least one, each with its observer
   * @throws RocmForgeError `INVALID_OPTION` where two have the same name
   */
  constructor(
    served: readonly ServedModel[],
    options: GatewayOptions,
    observers: readonly ModelObserver[],
    { log, ...shared }: Omit<SharedParts, 'template' | 'budget' | 'loadQueue'>,
  ) {
    const budget = inlineBudget();
    const { maxLoadedModels } = options;
    const loadQueue = maxLoadedModels === undefined ? undefined : new LoadQueue(maxLoadedModels, log);
    this.loadQueue = loadQueue;
    const models = loadedFirst(
      modelsOf(options).map((model) => optionsFor(model, options)),
      maxLoadedModels,
    );
    this.all = served.map((model, i) => {
      const own = models[i] as GatewayOptions;
      return hostModel(model, own, observers[i] as ModelObserver, {
        ...{ ...shared, template: templateOf(own), budget, loadQueue },
        log: served.length > 1 ? log.child({ model: model.name }) : log,
      });
    });
    this.offered = new Models(this.all);
  }

  /** The one of requests that name none. */
  get first(): HostedModel {
    return this.all[0] as HostedModel;
  }

  /** Replicas of all models. */
  get replicas(): readonly Replica[] {
    return this.all.flatMap(({ replicas }) => replicas);
  }

  /** Their devices, each once. */
  get device(): string {
    return [...new Set(this.all.map(({ router }) => router.device))].filter((device) => device !== '').join(', ');
  }

  /** True if requests are taken, and will be, and some model is served. */
  get isReady(): boolean {
    return this.all.some(({ router }) => router.isReady);
  }

  /** True if only a restart helps: no model is loaded, and of one the file holds other content than when it was opened. */
  get needsRestart(): boolean {
    return (
      !this.all.some(({ router }) => router.isLoaded) &&
      this.all.some(({ replicas }) => replicas.every(({ needsRestart }) => needsRestart))
    );
  }

  /** Generations under way. */
  get active(): number {
    return this.all.reduce((sum, { router }) => sum + router.active, 0);
  }

  /** Generations queued so far. */
  get accepted(): number {
    return this.all.reduce((sum, { router }) => sum + router.accepted, 0);
  }

  /** Counts of all replicas. */
  get counts(): ReplicaCounts {
    return this.all.map(({ router }) => router.counts).reduce(addUp);
  }

  /**
   * Starts the executors, those of one model after those of the other: what each finds of its device's memory does not depend on
   * which was faster. Those of models that are loaded on demand are left.
   *
   * @throws RocmForgeError why the first one that cannot serve could not
   */
  async start(): Promise<void> {
    const atStart = this.all.filter(({ loadMode }) => loadMode === 'at-start');
    for (const { encoder } of atStart) encoder.warm();
    for (const { router, served } of atStart) {
      await router.start().catch((error: unknown) => {
        throw this.all.length > 1 ? namingRoom(asRocmForgeError(error), served.name) : error;
      });
    }
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    this.loadQueue?.close();
    await Promise.all(this.all.map((model) => model.close()));
  }

  /** Is not ready any more; generations are still taken. */
  announceEnd(): void {
    for (const { router } of this.all) router.announceEnd();
  }

  /** Takes no more generations; those under way go on. */
  stopAdmission(): void {
    for (const { router } of this.all) router.stopAdmission();
  }

  /** Ends all generations with an error. */
  endAll(error: RocmForgeError): void {
    for (const { router } of this.all) router.endAll(error);
  }

  /** Ends one executor after the other and starts another in its place. What is unloaded stays so. */
  async replaceExecutors(): Promise<void> {
    for (const { router } of this.all) await router.replaceExecutors();
  }
}

/** Names ways to free memory for a model that does not fit: on one device the others have theirs already. */
function namingRoom(error: RocmForgeError, name: string): RocmForgeError {
  if (error.reason !== 'OUT_OF_MEMORY') return error;
  const help = 'where models share a device, give each less with --kv-memory, --max-sequences or --max-context';
  return new RocmForgeError('OUT_OF_MEMORY', `"${name}": ${error.message}; ${help}`, error.metadata, { cause: error });
}
