import { RocmForgeError } from '../../shared/errors.js';
import type {
  GetModelRequest,
  GetModelResponse,
  ListModelsResponse,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { LargeRequest, type RequestBytes } from '../../shared/grpc/strict.js';
import type { Load } from '../replica/load.js';
import type { EncodeService } from '../request/encoding/encode-service.js';
import type { TranslatedGeneration } from '../request/encoding/text-jobs.js';
import type { CallContext } from '../request/encoding/text-threads.js';
import { MOST_MODEL_NAME_CHARACTERS, withoutLatestTag } from '../request/limits.js';
import type { ServedModel } from '../request/served-model.js';
import type { Embeddings } from './embeddings.js';
import type { Inference } from './inference.js';
import { INLINE_MESSAGE_BYTES, type Method } from './method-bytes.js';
import { modelNameOfJson } from './model-names.js';

export { withoutLatestTag };

/** One of the models that a gateway serves, as servers have it. */
export interface OfferedModel {
  readonly served: ServedModel;
  readonly inference: Inference;
  readonly encoder: EncodeService;
  readonly embeddings: Embeddings;
  /** Its load and capacity. */
  readonly load: () => Load;
  /** Devices that share each of its layers, and stages of layers. */
  readonly parallelism: () => { readonly tensor: number; readonly pipeline: number };
  /**
   * Loads it if it is unloaded. Resolves when requests are served, or the signal aborts.
   *
   * @throws RocmForgeError why it cannot be loaded
   */
  wake(signal?: AbortSignal): Promise<void>;
  /** A request will probably come: loads it as that would, unless others had to be waited for. */
  expect(): void;
  /**
   * Sets the time (ms) without requests after which it is unloaded; absent: the gateway's.
   *
   * @returns false if the gateway does not unload idle models; nothing is changed then
   */
  keepAlive(idleMs: number): boolean;
  /** When it is unloaded if no request comes, in ms since 1970; infinite if it is not. */
  unloadsAt(): number;
  /** True if it is unloaded, and neither being loaded nor waiting for that. */
  isUnloaded(): boolean;
  /**
   * Unloads it when its requests have ended, until the next one comes. Resolves when it is unloaded, or the signal aborts.
   *
   * @returns false if the gateway does not unload models; nothing is changed then
   */
  unload(signal: AbortSignal): Promise<boolean>;
}

/** Error of a request that is to unload a model, to a gateway that unloads none. @param field says so in the request */
export function unloadsNone(field: string): RocmForgeError {
  const options = '--idle-unload, --load on-demand, --load on-command or --max-loaded-models';
  return new RocmForgeError(
    'SWITCHED_OFF',
    `requests unload no models here; start the gateway with ${options}, or use rocmforge admin --unload-model`,
    { field },
  );
}

/**
 * All models that a gateway serves: a request's name chooses one, and who names none gets the first. Where there is one alone,
 * whether it takes the name is for it to say.
 */
export class Models {
  private readonly byName = new Map<string, OfferedModel>();

  /**
   * @param all at least one
   * @throws RocmForgeError `INVALID_OPTION` where two have the same name
   */
  constructor(readonly all: readonly OfferedModel[]) {
    for (const model of all) {
      const { modelName, modelAliases = [] } = model.served.facts;
      for (const name of new Set([modelName, ...modelAliases])) {
        if (this.byName.has(name)) {
          throw new RocmForgeError('INVALID_OPTION', `two models are called "${name}"; give each its own name`);
        }
        this.byName.set(name, model);
      }
    }
  }

  get first(): OfferedModel {
    return this.all[0] as OfferedModel;
  }

  /** @throws RocmForgeError `MODEL_NOT_FOUND`, with the names that there are */
  named(name: string): OfferedModel {
    const { first } = this;
    // A text longer than any name is refused with the limit that it breaks.
    if (this.all.length === 1 || name === '' || name.length > MOST_MODEL_NAME_CHARACTERS) return first;
    const known = this.byName.get(name) ?? this.byName.get(withoutLatestTag(name));
    const found = known ?? (first.served.facts.takesAnyName ? first : undefined);
    if (found !== undefined) return found;
    const names = this.all.map(({ served }) => `"${served.name}"`).join(', ');
    throw new RocmForgeError('MODEL_NOT_FOUND', `there is no model "${name}" here, only ${names}`, { field: 'model' });
  }

  /**
   * The model that a request asks for. What is too large to be decoded here is looked through in a thread.
   *
   * @throws RocmForgeError `MODEL_NOT_FOUND`, `MALFORMED_MESSAGE`, or as the threads
   */
  async ofMessage(message: { readonly model: string } | LargeRequest, caller: CallContext): Promise<OfferedModel> {
    if (this.all.length === 1) return this.first;
    if (!(message instanceof LargeRequest)) return this.named(message.model);
    return this.named(await this.first.encoder.modelName('message', message.bytes, caller));
  }

  /** The same, of a request in JSON. */
  async ofJson(bytes: Uint8Array, caller: CallContext): Promise<OfferedModel> {
    const { all, first } = this;
    if (all.length === 1) return first;
    const { budget } = first.encoder;
    if (bytes.length <= INLINE_MESSAGE_BYTES && !budget.isSpent) {
      return this.named(budget.spend(() => modelNameOfJson(bytes)));
    }
    return this.named(await first.encoder.modelName('json', bytes, caller));
  }

  /**
   * A large request of another protocol, by its service's name, in ours.
   *
   * @throws RocmForgeError why it has none
   */
  translate(service: string, { bytes }: LargeRequest, caller: CallContext): Promise<TranslatedGeneration> {
    return this.first.encoder.translate(service, bytes, caller);
  }

  /** The bytes that each method's requests may have: of which model it is shows when it is decoded. */
  get requestBytes(): Readonly<Record<Method, RequestBytes>> {
    const [longest] = this.all.toSorted((a, b) => b.served.contextLength - a.served.contextLength);
    return (longest as OfferedModel).inference.requestBytes;
  }

  /** The bytes that a request of a method without a prompt may have. */
  get controlBytes(): RequestBytes {
    return this.first.inference.controlBytes;
  }

  /** Load and capacity of all of them together; KV blocks are those of the replica with the fewest left. */
  get load(): Load {
    const loads = this.all.map(({ load }) => load());
    const fullest = loads.reduce((most, load) => (load.kvUsage > most.kvUsage ? load : most));
    const sum = (name: 'running' | 'waiting' | 'slots') => loads.reduce((all, load) => all + load[name], 0);
    return { ...fullest, running: sum('running'), waiting: sum('waiting'), slots: sum('slots') };
  }

  /** True if some model is served. */
  get isReady(): boolean {
    return this.all.some(({ inference }) => inference.describe().ready);
  }

  listModels(): ListModelsResponse {
    return { models: this.all.map(({ inference }) => inference.describe()) };
  }

  /** @throws RocmForgeError of limits, `MODEL_NOT_FOUND` */
  getModel(request: GetModelRequest): GetModelResponse {
    return this.named(request.model).inference.getModel(request);
  }
}
