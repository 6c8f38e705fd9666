import { readFileSync } from 'node:fs';
import { isLocal } from '../shared/address.js';
import { type ErrorReason, RocmForgeError } from '../shared/errors.js';
import type { Fault } from '../shared/fault-log.js';
import { Health, LIVENESS } from '../shared/grpc/health.js';
import { createLogger, logSink } from '../shared/log.js';
import { administrationOf } from './administration.js';
import { deviceState, watchDevices } from './device-metrics.js';
import { type AdminServer, type ChangeableLimits, openAdminServer } from './doors/admin/admin-server.js';
import { encodeWorkerFile } from './doors/encode-worker-file.js';
import { OpenFiles } from './doors/grpc/open-files.js';
import { DEFAULT_CONNECTIONS, openPublicServer, type PublicServer } from './doors/grpc/public-server.js';
import { publicServices } from './doors/grpc/public-services.js';
import type { HttpServer } from './doors/http/http-server.js';
import { Inference } from './doors/inference.js';
import { drain } from './drain.js';
import { MatcherThreads } from './matching/matcher-threads.js';
import { Metrics } from './metrics.js';
import { type MetricsServer, serveMetrics } from './metrics-server.js';
import { type GatewayOptions, KV_CACHE_TYPES } from './options.js';
import { faultCounters } from './replica/link/fault-reports.js';
import { removeLeftFolders } from './replica/link/private-folder.js';
import type { SupervisorState } from './replica/link/supervision.js';
import type { SupervisorOptions } from './replica/link/supervisor.js';
import { loadOf } from './replica/load.js';
import { Replica, type ReplicaOptions } from './replica/replica.js';
import { EncodeService } from './request/encoding/encode-service.js';
import { RequestRunner } from './request/runner.js';
import { readServedModel, type ServedModel } from './request/served-model.js';
import { Router } from './router.js';
import { Trust } from './trust/trust.js';

/** A gateway that serves. */
export interface Gateway {
  /** The port it is bound to; 0 for a socket file. */
  readonly port: number;
  readonly modelName: string;
  readonly contextLength: number;
  /** The most sequences that run at once. */
  readonly sequences: number;
  /** The executor's process id, where this gateway started it. */
  executorPid(): number | undefined;
  /** Where the executor listens. */
  executorAddress(): string | undefined;
  /** What the supervisor is at. */
  executorState(): SupervisorState;
  /** The last executors that ended without being asked to, latest last. */
  readonly faults: readonly Fault[];
  /** Executors started so far. */
  executorGenerations(): number;
  /** Ends one executor after the other and starts another in its place; see {@link Router.replaceExecutors}. */
  replaceExecutors(): Promise<void>;
  /** For tests: all, and the first of them. */
  readonly replicas: readonly Replica[];
  readonly replica: Replica;
  readonly server: PublicServer;
  readonly httpServer: HttpServer | undefined;
  readonly metrics: Metrics;
  /**
   * Is not ready any more, takes no more requests, and ends when those under way have, or when the time is over.
   *
   * @param delayMs for so long requests are still taken, so that whoever looks at readiness sends none that is refused; then nobody
   * can connect any more, and connections are told to go (GOAWAY)
   * @returns whether all of them ended by themselves
   */
  drain(timeoutMs: number, delayMs?: number): Promise<boolean>;
  /** Ends at once; streams under way are cut. */
  stop(): Promise<void>;
}

const LOAD_TIMEOUT_MS = 120_000;
/** How long metrics wait for what an executor tells of its device. */
const DEVICE_STATS_TIMEOUT_MS = 500;
const FAULTS_KEPT = 32;

/**
 * Starts a gateway and its executor. Resolves when requests are served.
 *
 * @throws RocmForgeError why it cannot: model file, address, executor
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const log = createLogger('gateway');
  const started = Math.floor(Date.now() / 1000);
  const left = removeLeftFolders();
  if (left > 0) log.info({ folders: left }, 'removed what gateways that were killed had left');
  const template = {
    source: options.chatTemplate === undefined ? undefined : templateOf(options.chatTemplate),
    variablesJson: options.chatTemplateKwargs,
    tellsDate: options.templateDate,
  };
  const model = readServedModel(options.model, {
    ...(options.modelName !== undefined && { name: options.modelName }),
    ...(options.maxContext !== undefined && { maxContext: options.maxContext }),
    ...(options.maxPriority !== undefined && { maxPriority: options.maxPriority }),
    ...(options.anyModelName && { anyName: true }),
    ...(options.modelAlias !== undefined && { aliases: options.modelAlias }),
    ...(options.seed !== undefined && { seed: options.seed }),
    template,
    ...(options.toolParser !== undefined && { toolParser: options.toolParser }),
    ...(options.reasoningParser !== undefined && { reasoningParser: options.reasoningParser }),
  });
  const { file: modelFile, tokenizer, hasChatTemplate, facts, unused } = model;
  if (unused.length > 0) {
    const tensors = unused.reduce((sum, { tensors }) => sum + tensors.length, 0);
    log.info({ tensors }, `not used of the model file: ${unused.map(({ why }) => why).join('; ')}`);
  }
  const encoder = new EncodeService({
    ...{ modelFile, tokenizer, hasChatTemplate, facts, template },
    workerFile: encodeWorkerFile(),
  });
  const faults: Fault[] = [];
  const metrics: Metrics = new Metrics(model.name, () => router.counts);
  const trust = new Trust(options, metrics, log);
  if (trust.demandsBearer && trust.tls === undefined && !isLocal(options.listen)) {
    log.warn(
      { listen: options.listen },
      'tokens and prompts come here in clear; use --tls-cert, or what speaks TLS in front',
    );
  }
  const { standby = 0, allowOtherArithmetic } = options;
  const executors = executorsOf(options);
  // Operators may change limits while it serves.
  const queueLimits: ChangeableLimits[] = [];
  const replicas = executors.map((executor, i): Replica => {
    const supervisor = supervisorOptions({ ...options, executor }, model);
    const replicaOptions: ReplicaOptions & ChangeableLimits = {
      ...options,
      supervisor,
      queueShareOf: (principal) => trust.limiter.queueShareOf(principal),
    };
    queueLimits.push(replicaOptions);
    const replica: Replica = new Replica(
      replicaOptions,
      {
        state: () => showHealth(),
        progress: (done, total) => options.onProgress?.(done, total),
        admitted: (waitedMs) => metrics.queued(waitedMs / 1000),
        fault: (fault) => {
          faults.push(fault);
          if (faults.length > FAULTS_KEPT) faults.shift();
        },
        restarts: (reason) => metrics.executorLost(reason),
        recovered: (seconds) => metrics.executorRecovered(seconds),
        orphaned: () => router.orphaned(replica),
        hasRoom: () => router.hasRoom(replica),
      },
      executors.length > 1 ? log.child({ replica: i }) : log,
    );
    return replica;
  });
  const [replica] = replicas as [Replica];
  const router: Router = new Router(replicas, { standby, allowOtherArithmetic });
  const showHealth = (): void => health.setServing(router.isReady);

  const readiness = () => ({ ready: router.isReady, device: router.device });
  const runner = new RequestRunner(model.name, tokenizer, router, metrics, trust.limiter, createLogger('audit'));
  const matchers = new MatcherThreads({ tokenizer });
  const inference = new Inference(model, encoder, runner, matchers, readiness, {
    streamInterval: options.streamInterval,
    speculates: options.speculate !== 'off',
  });
  const services = publicServices(inference, () => loadOf(router.counts));
  // Who restarts what is not alive is not to restart a gateway whose executor loads: it would lose every stream.
  const health = new Health(
    services.map(({ name }) => name),
    [LIVENESS],
  );
  const doors = options.httpListen ? 2 : 1;
  const files = new OpenFiles(doors * (options.maxConnections ?? DEFAULT_CONNECTIONS));
  const server = await openPublicServer(options.listen, services, health, trust, { ...options, files }, log);
  metrics.watchDoor('grpc', {
    connections: server.connections.counters,
    calls: [server.calls.counters],
    floods: server.floods.counters,
    failedHandshakes: server.failedHandshakes,
  });
  metrics.watchLosses(
    () => logSink.dropped,
    () => faultCounters.notKept,
  );
  let metricsServer: MetricsServer | undefined;
  let adminServer: AdminServer | undefined;
  let endTracing: (() => Promise<void>) | undefined;
  let httpServer: HttpServer | undefined;
  const close = async (): Promise<void> => {
    server.stop();
    httpServer?.stop();
    metricsServer?.close();
    adminServer?.stop();
    await router.stop();
    await endTracing?.();
    await encoder.close();
    await matchers.close();
    trust.close();
    model.file.close();
  };
  let closed: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    closed ??= close();
    return closed;
  };
  try {
    if (options.metricsListen) {
      const stateOf = async (one: Replica) => deviceState(await one.deviceStats(DEVICE_STATS_TIMEOUT_MS));
      watchDevices(metrics.registry, () => Promise.all(replicas.map(stateOf)));
      metricsServer = await serveMetrics(metrics.registry, options.metricsListen, () => router.isReady);
    }
    if (options.adminListen) {
      const administered = administrationOf({
        options,
        model: model.name,
        router,
        replicas,
        queueLimits,
        faults,
        metrics,
      });
      adminServer = await openAdminServer(options.adminListen, administered, log);
    }
    if (options.httpListen) {
      // Whoever wants no such door starts without what it is made of.
      const [{ openHttpServer }, { httpFacts }, { llamaRegistry }] = await Promise.all([
        import('./doors/http/http-server.js'),
        import('./doors/http/facts.js'),
        import('./doors/http/llama/metrics.js'),
      ]);
      const counted = { completions: () => metrics.completions, replicas: () => router.counts };
      const context = {
        inference,
        encoder,
        trust,
        facts: httpFacts(model, options.modelTag ?? []),
        sequences: () => router.counts.slots,
        running: () => router.counts.running,
        shows: { page: options.httpPage ?? true, slots: options.httpSlots ?? false },
        defaults: { verbose: options.httpVerbose ?? false },
        llamaMetrics: options.httpMetrics ? llamaRegistry(counted) : undefined,
        onRefused: (reason: ErrorReason) => metrics.httpRefused(reason),
        started,
      };
      httpServer = await openHttpServer(options.httpListen, context, { ...options, files });
      metrics.watchDoor('http', {
        connections: httpServer.connections.counters,
        calls: [httpServer.bodies.counters, httpServer.unread.counters],
        failedHandshakes: httpServer.failedHandshakes,
      });
    }
    if (options.otlpEndpoint) {
      const { startTracing } = await import('./tracing.js');
      const spans = { ended: 0, exported: 0 };
      endTracing = await startTracing(options.otlpEndpoint, spans);
      metrics.total('spans_total', 'Spans of requests', () => spans.ended);
      metrics.total('spans_exported_total', 'Spans that the collector took', () => spans.exported);
    }
    encoder.warm();
    await router.start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    port: server.port,
    modelName: model.name,
    contextLength: model.contextLength,
    sequences: router.counts.slots,
    executorPid: () => replica.pid,
    executorAddress: () => replica.address,
    executorState: () => replica.state,
    faults,
    executorGenerations: () => replica.counts.executors,
    replica,
    replicas,
    replaceExecutors: () => router.replaceExecutors(),
    server,
    httpServer,
    metrics,
    drain: async (timeoutMs, delayMs = 0) => {
      const finished = await drain({ router, server, httpServer, showHealth }, timeoutMs, delayMs);
      await stop();
      return finished;
    },
    stop,
  };
}

function templateOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `--chat-template ${file} cannot be read: ${(error as Error).message}`);
  }
}

/** How each replica's executor is started or found. */
function executorsOf({ executor, moreExecutors = [] }: GatewayOptions): readonly SupervisorOptions['executor'][] {
  return [executor, ...moreExecutors];
}

function supervisorOptions(options: GatewayOptions, model: ServedModel): SupervisorOptions {
  const { executor } = options;
  return {
    executor:
      'spawn' in executor ? { spawn: { ...executor.spawn, modelDescriptors: model.file.descriptors } } : executor,
    checkModelFile: () => model.file.check(),
    vocabularySize: model.vocabularySize,
    stepTimeoutMs: options.stepTimeoutMs,
    loadTimeoutMs: options.loadTimeoutMs ?? LOAD_TIMEOUT_MS,
    maxRestarts: options.maxRestarts,
    allowOtherArithmetic: options.allowOtherArithmetic,
    stateFolder: options.stateFolder,
    load: {
      path: options.model,
      kvCacheType: KV_CACHE_TYPES[options.kvCacheType],
      maxContext: model.contextLength,
      maxSequences: options.maxSequences,
      maxStepTokens: options.maxStepTokens,
      kvMemoryBytes: BigInt(options.kvMemoryBytes),
      // Without a prefix cache nobody would look for them.
      stateSnapshots: options.stateSnapshots ?? (model.isRecurrent && !options.prefixCache ? 0 : undefined),
      fingerprint: model.file.identity,
    },
  };
}
