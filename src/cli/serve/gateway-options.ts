import { usableProcessors } from '../../executor/load/processors.js';
import type { ModelPull } from '../../gateway/api/http/ollama/ollama-pull.js';
import type { ReasoningParser, ToolParser } from '../../gateway/chat/answer/answer-format.js';
import type { GatewayOptions, LoadTime, ModelOptions } from '../../gateway/options.js';
import type { Pooling } from '../../gateway/request/embedding.js';
import type { TrustOptions } from '../../gateway/trust/trust.js';
import { RocmForgeError } from '../../shared/errors.js';
import { checkSplit, type ModelOptionValues } from '../common/options.js';
import { loadProgress } from '../common/progress.js';
import { pullModel } from '../hub/pull.js';

/** Milliseconds from a gateway's start, after which short-lived ones have ended. */
const WARM_UP_MS = 3000;

/** Downloads for clients of Ollama's API: a served hub model was pulled by the same code. */
const pullQuietly: ModelPull = (name, progress) => pullModel(name, { progress, notice: () => undefined });

/**
 * The gateway that a command's options ask for.
 *
 * @throws RocmForgeError `INVALID_OPTION` for options that need others
 */
export function gatewayOptions(
  options: ModelOptionValues &
    TrustOptions & {
      readonly model: string;
      readonly listen: string;
      readonly modelName?: string;
      readonly moreModels?: readonly ModelOptions[];
      readonly load?: LoadTime;
      readonly maxLoadedModels?: number;
      /** In seconds. */
      readonly idleUnload?: number;
      readonly anyModelName?: boolean;
      readonly modelAlias?: readonly string[];
      readonly modelTag?: readonly string[];
      readonly seed?: bigint;
      readonly httpPage?: boolean;
      readonly httpSlots?: boolean;
      readonly httpMetrics?: boolean;
      readonly httpVerbose?: boolean;
      readonly httpPull?: boolean;
      readonly strictFields?: boolean;
      readonly chatTemplate?: string;
      readonly chatTemplateKwargs?: string;
      readonly templateDate?: boolean;
      readonly toolsFallback?: boolean;
      readonly toolParser?: ToolParser;
      readonly reasoningParser?: ReasoningParser | 'none';
      readonly pooling?: Pooling;
      readonly executor?: readonly string[];
      readonly replicas?: number;
      readonly gpus?: readonly number[];
      readonly standby?: number;
      readonly allowOtherArithmetic?: boolean;
      readonly executorSecretFile?: string;
      readonly executorCa?: string;
      readonly executorCert?: string;
      readonly executorKey?: string;
      readonly pipelineDepth?: number;
      readonly speculate?: 'lookup' | 'mtp' | 'off';
      readonly prefixCache?: boolean;
      readonly streamInterval?: number;
      readonly stepTimeoutMs?: number;
      readonly maxQueuedRequests?: number;
      readonly maxQueuedTokens?: number;
      readonly maxQueuedRequestsPerPeer?: number;
      readonly maxPriority?: number;
      readonly maxConnections?: number;
      readonly maxStreamsPerConnection?: number;
      readonly maxConnectionAgeMs?: number;
      readonly maxConnectionIdleMs?: number;
      readonly keepaliveMs?: number;
      readonly maxRestarts?: number;
      readonly recoveryTimeout?: number;
      readonly keeper?: boolean;
      readonly spare?: boolean;
      readonly httpListen?: readonly string[];
      readonly allowedHosts?: readonly string[];
      readonly corsOrigins?: readonly string[];
      readonly otlpEndpoint?: string;
      readonly metricsListen?: string;
      readonly adminListen?: string;
    },
): GatewayOptions {
  const unreachable = (['executorSecretFile', 'executorCa', 'executorCert', 'executorKey'] as const).find(
    (name) => options.executor === undefined && options[name] !== undefined,
  );
  if (unreachable !== undefined) {
    throw new RocmForgeError('INVALID_OPTION', `${flagOf(unreachable)} requires --executor`);
  }
  if (options.prefixCache === false && (options.stateSnapshots ?? 0) > 0) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      '--state-snapshots requires the prefix cache, which --no-prefix-cache turns off',
    );
  }
  checkSplit(options, 'replicas');
  checkElsewhere(options);
  const [executor, ...moreExecutors] = executorsOf(options);
  return {
    model: options.model,
    modelName: options.modelName,
    moreModels: options.moreModels,
    load: options.load,
    maxLoadedModels: options.maxLoadedModels,
    idleUnloadMs: options.idleUnload === undefined ? undefined : options.idleUnload * 1000,
    anyModelName: options.anyModelName,
    modelAlias: options.modelAlias,
    modelTag: options.modelTag,
    seed: options.seed,
    httpPage: options.httpPage,
    httpSlots: options.httpSlots,
    httpMetrics: options.httpMetrics,
    httpVerbose: options.httpVerbose,
    pullModel: options.httpPull ? pullQuietly : undefined,
    strictFields: options.strictFields,
    chatTemplate: options.chatTemplate,
    chatTemplateKwargs: options.chatTemplateKwargs,
    templateDate: options.templateDate,
    toolsFallback: options.toolsFallback,
    toolParser: options.toolParser,
    reasoningParser: options.reasoningParser,
    pooling: options.pooling,
    listen: options.listen,
    executor: executor as Executor,
    moreExecutors,
    standby: options.standby,
    allowOtherArithmetic: options.allowOtherArithmetic,
    maxContext: options.maxContext,
    maxSequences: options.maxSequences ?? 0,
    maxStepTokens: options.maxStepTokens === undefined ? 0 : Math.max(options.maxStepTokens, options.maxSequences ?? 0),
    kvMemoryBytes: options.kvMemory ?? 0,
    stateSnapshots: options.stateSnapshots,
    cpuExperts: options.cpuExperts,
    fit: options.fit,
    deviceMemoryBytes: options.deviceMemory,
    kvCacheType: options.kvCacheType,
    pipelineDepth: options.pipelineDepth ?? 2,
    speculate: options.speculate,
    prefixCache: options.prefixCache ?? true,
    streamInterval: options.streamInterval,
    // Threads of many models are started when they are needed.
    warmUpMs: (options.moreModels ?? []).length > 0 ? undefined : WARM_UP_MS,
    stepTimeoutMs: options.stepTimeoutMs ?? 2000,
    maxQueuedRequests: options.maxQueuedRequests ?? 1024,
    maxQueuedTokens: options.maxQueuedTokens ?? 1 << 20,
    maxQueuedRequestsPerPeer: options.maxQueuedRequestsPerPeer,
    maxPriority: options.maxPriority,
    maxConnections: options.maxConnections,
    maxStreamsPerConnection: options.maxStreamsPerConnection,
    maxConnectionAgeMs: options.maxConnectionAgeMs,
    maxConnectionIdleMs: options.maxConnectionIdleMs,
    keepaliveMs: options.keepaliveMs,
    tokenFile: options.tokenFile,
    jwksFile: options.jwksFile,
    jwtIssuer: options.jwtIssuer,
    jwtAudience: options.jwtAudience,
    limitsFile: options.limitsFile,
    tlsCert: options.tlsCert,
    tlsKey: options.tlsKey,
    tlsClientCa: options.tlsClientCa,
    trustedProxies: options.trustedProxies,
    maxRestarts: options.maxRestarts ?? 10,
    recoveryTimeoutMs: options.recoveryTimeout === undefined ? undefined : options.recoveryTimeout * 1000,
    keepsMemory: options.keeper,
    hasSpare: options.spare,
    httpListen: options.httpListen?.[0],
    moreHttpListen: options.httpListen?.slice(1),
    allowedHosts: options.allowedHosts,
    corsOrigins: options.corsOrigins,
    otlpEndpoint: options.otlpEndpoint,
    metricsListen: options.metricsListen,
    adminListen: options.adminListen,
    onProgress: loadProgress(),
  };
}

type Executor = GatewayOptions['executor'];

/** The flag of an option: `executorCa` is `--executor-ca`. */
const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/**
 * A gateway does not own an executor at another address: it serves one model there and cannot end its process.
 *
 * @throws RocmForgeError `INVALID_OPTION`
 */
function checkElsewhere(options: {
  readonly executor?: readonly string[];
  readonly moreModels?: readonly ModelOptions[];
  readonly load?: string;
  readonly maxLoadedModels?: number;
  readonly idleUnload?: number;
}): void {
  if (options.executor === undefined) return;
  const refuse = (option: string, what: string): never => {
    throw new RocmForgeError('INVALID_OPTION', `${what} cannot be combined with --executor`, { option });
  };
  if ((options.moreModels ?? []).length > 0) refuse('model', 'several --model');
  if (options.idleUnload !== undefined) refuse('idle-unload', '--idle-unload');
  if (options.maxLoadedModels !== undefined) refuse('max-loaded-models', '--max-loaded-models');
  if (options.load !== undefined && options.load !== 'at-start') refuse('load', `--load ${options.load}`);
}

/**
 * An executor a replica, those that stand by last.
 *
 * @throws RocmForgeError `INVALID_OPTION` for options of which only one can hold
 */
function executorsOf(
  options: ModelOptionValues & {
    readonly executor?: readonly string[];
    readonly executorSecretFile?: string;
    readonly executorCa?: string;
    readonly executorCert?: string;
    readonly executorKey?: string;
    readonly replicas?: number;
    readonly gpus?: readonly number[];
    readonly standby?: number;
    readonly moreModels?: readonly ModelOptions[];
    readonly maxLoadedModels?: number;
  },
): readonly Executor[] {
  const { device, gpu, kernels, attention, stepDelayMs, plantFault, gpus, replicas = 1, standby = 0 } = options;
  const { split, tensorSplit } = options;
  const refuse = (why: string): never => {
    throw new RocmForgeError('INVALID_OPTION', why);
  };
  if (options.executor !== undefined) {
    if (replicas > 1 || gpus) refuse('--replicas and --gpus cannot be combined with --executor');
    if (standby >= options.executor.length)
      refuse(`--standby is ${standby}; it must be less than the ${options.executor.length} of --executor`);
    if (new Set(options.executor).size < options.executor.length)
      refuse('--executor names an address twice; give each address once');
    return options.executor.map((address) => ({
      address,
      secretFile: options.executorSecretFile,
      ca: options.executorCa,
      cert: options.executorCert,
      key: options.executorKey,
    }));
  }
  if (gpus && gpu !== undefined) refuse('--gpu cannot be combined with --gpus');
  if (split !== undefined) {
    if (replicas > 1) refuse('--replicas cannot be combined with --split');
    const { threads } = options;
    const spawn = { device, gpus, split, tensorSplit, threads, kernels, attention, stepDelayMs, plantFault };
    return Array.from({ length: 1 + standby }, () => ({ spawn }));
  }
  if (gpus && replicas > 1 && replicas !== gpus.length)
    refuse(`--replicas is ${replicas}, but --gpus names ${gpus.length}; leave --replicas out`);
  if (gpus && device === 'host') refuse('--gpus cannot be combined with --device host');
  const serving = gpus?.length ?? replicas;
  // Threads of several that each took all processors would wait for one another.
  const models = 1 + (options.moreModels ?? []).length;
  const onHost = gpus ? 1 : serving * Math.min(models, options.maxLoadedModels ?? models);
  const shared = onHost > 1 ? Math.max(1, Math.floor(usableProcessors() / onHost)) : undefined;
  const threads = options.threads ?? shared;
  return Array.from({ length: serving + standby }, (_, i) => ({
    spawn: { device, gpu: gpus?.[i % serving] ?? gpu, threads, kernels, attention, stepDelayMs, plantFault },
  }));
}
