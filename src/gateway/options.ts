import { KvCacheType } from '../shared/generated/rocmforge/executor/v1/executor.js';
import type { HttpOptions } from './api/http/http-server.js';
import type { ModelPull } from './api/http/ollama/ollama-pull.js';
import type { ReasoningParser, ToolParser } from './chat/answer/answer-format.js';
import type { SupervisorOptions } from './replica/link/supervisor.js';
import type { Pooling } from './request/embedding.js';
import type { TrustOptions } from './trust/trust.js';

/** Element types of a KV cache, as options and as the protocol name them. */
export const KV_CACHE_TYPES = { f32: KvCacheType.F32, f16: KvCacheType.F16, q8_0: KvCacheType.Q8_0 } as const;

/** Options that each of several models may have for itself. */
export const OWN_OPTIONS = [
  ...(['executor', 'moreExecutors', 'standby', 'load', 'idleUnloadMs'] as const),
  ...(['maxContext', 'maxSequences', 'maxStepTokens', 'kvMemoryBytes', 'kvCacheType', 'stateSnapshots'] as const),
  ...(['cpuExperts', 'fit', 'deviceMemoryBytes'] as const),
  ...([
    'chatTemplate',
    'chatTemplateKwargs',
    'templateDate',
    'toolsFallback',
    'toolParser',
    'reasoningParser',
    'pooling',
    'seed',
  ] as const),
] as const;

/** The time at which a model is loaded. */
export type LoadTime = 'at-start' | 'on-demand' | 'on-command';

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

/** Options of a gateway. Those of executors, memory and limits apply to each of its models that has no such option of its own. */
export interface GatewayOptions extends ModelOptions, HttpOptions, TrustOptions {
  /** Models beside the first, which is that of requests that name none. */
  readonly moreModels?: readonly ModelOptions[] | undefined;
  /** When executors are started: with the gateway, when a request comes, or by command alone; default `at-start`. */
  readonly load?: LoadTime | undefined;
  /** Limit of the models that are loaded at once; absent: all. */
  readonly maxLoadedModels?: number | undefined;
  /** After how long without a request a model's executors are ended, until the next one; absent: never. */
  readonly idleUnloadMs?: number | undefined;
  /** True if requests may call the first model as they like; default: no. */
  readonly anyModelName?: boolean | undefined;
  /** The seed of requests that give none; default: one is drawn for each. */
  readonly seed?: bigint | undefined;
  /** A file with a chat template that takes the place of the model file's. */
  readonly chatTemplate?: string | undefined;
  /** A JSON object of variables for the chat template, of requests that give none of the name. */
  readonly chatTemplateKwargs?: string | undefined;
  /** True if chat templates are told the date; default: no. */
  readonly templateDate?: boolean | undefined;
  /** True if conversations may have tools though the template knows of none: they are described in a text; default: no. */
  readonly toolsFallback?: boolean | undefined;
  /** The model's format of calls and reasoning; default: the one that its chat template shows. */
  readonly toolParser?: ToolParser | undefined;
  readonly reasoningParser?: ReasoningParser | 'none' | undefined;
  /** Pooling of the model's embeddings; default: as its file says. */
  readonly pooling?: Pooling | undefined;
  /** `HOST:PORT` or `unix:PATH`. */
  readonly listen: string;
  /** Executor of the first replica. */
  readonly executor: SupervisorOptions['executor'];
  /** Executors of the others. */
  readonly moreExecutors?: readonly SupervisorOptions['executor'][] | undefined;
  /** Replicas that stand by until another's executor is lost; default 0. */
  readonly standby?: number | undefined;
  /** True if streams may go on where other bits are computed; default false. */
  readonly allowOtherArithmetic?: boolean | undefined;
  readonly maxContext?: number | undefined;
  /** 0: as the executor chooses for its device. */
  readonly maxSequences: number;
  /** 0: as the executor chooses for its device. */
  readonly maxStepTokens: number;
  /** 0: room for the context × sequences. */
  readonly kvMemoryBytes: number;
  /** Snapshots of recurrent states, for the prefix cache; default: as the executor chooses for its device. */
  readonly stateSnapshots?: number | undefined;
  /** Layers, the last that have any, whose routed experts stay in host memory; default: by {@link fit}. */
  readonly cpuExperts?: number | undefined;
  /** auto: as few as let the model fit the GPU; off: none. Default: auto. */
  readonly fit?: 'auto' | 'off' | undefined;
  /** Memory of each GPU that an executor may take; absent: what is free. */
  readonly deviceMemoryBytes?: number | undefined;
  readonly kvCacheType: keyof typeof KV_CACHE_TYPES;
  readonly pipelineDepth: number;
  readonly prefixCache: boolean;
  /** Source of draft tokens; default: prompt lookup. */
  readonly speculate?: 'lookup' | 'mtp' | 'off' | undefined;
  /** Tokens of a completion that a stream gets together, after its first; default 1. */
  readonly streamInterval?: number | undefined;
  /** See `ReplicaOptions` of `replica/replica.ts`. */
  readonly checkEveryStep?: boolean | undefined;
  readonly pauseLimitMs?: number | undefined;
  readonly stepTimeoutMs: number;
  readonly maxQueuedRequests: number;
  readonly maxQueuedTokens: number;
  readonly maxQueuedRequestsPerPeer?: number | undefined;
  /** The highest priority that a request may have; default 0. */
  readonly maxPriority?: number | undefined;
  readonly maxRestarts: number;
  /** See `SupervisorOptions` of `replica/link/supervisor.ts`. */
  readonly recoveryTimeoutMs?: number | undefined;
  readonly probeIntervalMs?: number | undefined;
  readonly keepsMemory?: boolean | undefined;
  readonly hasSpare?: boolean | undefined;
  /** Time that an executor's load may take without progress; default 2 min. */
  readonly loadTimeoutMs?: number | undefined;
  /** Folder that keeps the last faults; absent: they are logged alone. */
  readonly stateFolder?: string | undefined;
  /** `HOST:PORT` or `unix:PATH` of the HTTP server; absent: there is none. */
  readonly httpListen?: string | undefined;
  /** Addresses of it beside that. */
  readonly moreHttpListen?: readonly string[] | undefined;
  /** Tags of the model at the HTTP server. */
  readonly modelTag?: readonly string[] | undefined;
  /** True if the HTTP server serves its page; default true. */
  readonly httpPage?: boolean | undefined;
  /** True if a button of the page kills the executor: for the demo, and only on a loopback address; default false. */
  readonly demoKill?: boolean | undefined;
  /** True if it serves `/slots`, which tell anybody who may call how many are served; default false. */
  readonly httpSlots?: boolean | undefined;
  /** True if it serves `/metrics` by llama.cpp's names; default false. */
  readonly httpMetrics?: boolean | undefined;
  /** Downloads models for Ollama's `/api/pull`; absent: it is disabled. */
  readonly pullModel?: ModelPull | undefined;
  /** True if its answers to chats tell the prompt as it was rendered where requests do not say; default false. */
  readonly httpVerbose?: boolean | undefined;
  /** True if the HTTP server refuses unknown fields of requests; default: it ignores and reports them. */
  readonly strictFields?: boolean | undefined;
  /** Endpoint for spans of requests, by OTLP over HTTP; absent: whatever SDK is registered. */
  readonly otlpEndpoint?: string | undefined;
  /** `HOST:PORT` of Prometheus metrics; absent: none are served. */
  readonly metricsListen?: string | undefined;
  /** `unix:PATH` where operators are served; absent: they are not. */
  readonly adminListen?: string | undefined;
  /** Milliseconds after its start at which a thread of each model warms up for constraints; absent: none does. */
  readonly warmUpMs?: number | undefined;
  readonly onProgress?: ((doneBytes: number, totalBytes: number) => void) | undefined;
}
