import { KvCacheType } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { type OptionValues, rowsWhere } from '../shared/option-table.js';
import type { ModelPull } from './api/http/ollama/ollama-pull.js';
import type { HttpOptions } from './api/options.js';
import { SERVE_OPTIONS } from './option-table.js';
import type { SupervisorOptions } from './replica/link/supervisor.js';

/** Element types of a KV cache, as options and as the protocol name them. */
export const KV_CACHE_TYPES = { f32: KvCacheType.F32, f16: KvCacheType.F16, q8_0: KvCacheType.Q8_0 } as const;

type Rows = typeof SERVE_OPTIONS;
type GatewayRows = { [K in keyof Rows as Rows[K] extends { readonly by: string } ? never : K]: Rows[K] };
type ModelRows = { [K in keyof GatewayRows as Rows[K] extends { readonly scope: 'model' } ? K : never]: Rows[K] };

/** Options of `serve` that the gateway reads. */
export const GATEWAY_OPTIONS = rowsWhere(SERVE_OPTIONS, ({ by }) => by === undefined) as GatewayRows;
const MODEL_OPTIONS = rowsWhere(GATEWAY_OPTIONS, ({ scope }) => scope === 'model') as ModelRows;
/** Options that each of several models may have for itself. */
export const OWN_OPTIONS = [
  ...(['executor', 'moreExecutors'] as const),
  ...(Object.keys(MODEL_OPTIONS) as (keyof ModelRows)[]),
];

/** A model that a gateway serves. */
export interface ModelOptions {
  /** Its file. */
  readonly model: string;
  /** Name of the model in requests; default: the file's name. */
  readonly modelName?: string | undefined;
  /** Other names by which requests may call it. */
  readonly modelAlias?: readonly string[] | undefined;
  /** Options of this model in place of the gateway's. */
  readonly own?: Partial<Pick<GatewayOptions, (typeof OWN_OPTIONS)[number]>> | undefined;
}

/** Options for which 0 means that the executor chooses for its device. */
interface ExecutorLimits {
  readonly maxSequences: number;
  readonly maxStepTokens: number;
  /** 0: room for the context × sequences. */
  readonly kvMemoryBytes: number;
}

/**
 * Options of a gateway: those of {@link GATEWAY_OPTIONS} that it reads, and those that only programs set. Those of executors, memory and
 * limits apply to each of its models that has no such option of its own.
 */
export interface GatewayOptions
  extends Omit<OptionValues<GatewayRows>, keyof ExecutorLimits>,
    ExecutorLimits,
    ModelOptions,
    HttpOptions {
  /** Models beside the first, which is that of requests that name none. */
  readonly moreModels?: readonly ModelOptions[] | undefined;
  /** Executor of the first replica. */
  readonly executor: SupervisorOptions['executor'];
  /** Executors of the others. */
  readonly moreExecutors?: readonly SupervisorOptions['executor'][] | undefined;
  /** See `ReplicaOptions` of `replica/replica.ts`. */
  readonly checkEveryStep?: boolean | undefined;
  readonly pauseLimitMs?: number | undefined;
  /** See `SupervisorOptions` of `replica/link/supervisor.ts`. */
  readonly probeIntervalMs?: number | undefined;
  readonly spareOnHostMs?: number | undefined;
  /** Time that an executor's load may take without progress; default 2 min. */
  readonly loadTimeoutMs?: number | undefined;
  /** Folder that keeps the last faults; absent: they are logged alone. */
  readonly stateFolder?: string | undefined;
  /** `HOST:PORT` or `unix:PATH` of the HTTP server; absent: there is none. */
  readonly httpListen?: string | undefined;
  /** Addresses of it beside that. */
  readonly moreHttpListen?: readonly string[] | undefined;
  /** True if a button of the page kills the executor: for the demo, and only on a loopback address; default false. */
  readonly demoKill?: boolean | undefined;
  /** Downloads models for Ollama's `/api/pull`; absent: it is disabled. */
  readonly pullModel?: ModelPull | undefined;
  /** Milliseconds after its start at which a thread of each model warms up for constraints; absent: none does. */
  readonly warmUpMs?: number | undefined;
  readonly onProgress?: ((doneBytes: number, totalBytes: number) => void) | undefined;
}

/** Options as a program gives them: those with a default in the table may be missing. */
export type GivenGatewayOptions = Partial<GatewayOptions> &
  Pick<GatewayOptions, 'model' | 'listen' | 'executor' | keyof ExecutorLimits>;
