import type { Server as MetricsServer } from 'node:http';
import { HealthImplementation } from 'grpc-health-check';
import { RocmForgeError } from '../shared/errors.js';
import type { Fault } from '../shared/fault-log.js';
import { KvCacheType } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { createLogger } from '../shared/log.js';
import { encodeWorkerFile } from './doors/grpc/encode-worker-file.js';
import { INFERENCE_SERVICE, InferenceService } from './doors/grpc/inference-service.js';
import { type ConnectionOptions, openPublicServer, type PublicServer } from './doors/grpc/public-server.js';
import { Metrics, type MetricsSource, serveMetrics } from './metrics.js';
import { Engine } from './replica/engine.js';
import type { ExecutorSession } from './replica/link/executor-session.js';
import { PROBE_INTERVAL_MS, type SupervisorState } from './replica/link/supervision.js';
import { Supervisor, type SupervisorOptions } from './replica/link/supervisor.js';
import { EncodeService } from './request/encoding/encode-service.js';
import { RequestRunner } from './request/runner.js';
import { readServedModel } from './request/served-model.js';

/** How a gateway is started. */
export interface GatewayOptions extends ConnectionOptions {
  readonly model: string;
  readonly modelName?: string | undefined;
  /** `HOST:PORT` or `unix:PATH`. */
  readonly listen: string;
  readonly executor: SupervisorOptions['executor'];
  readonly maxContext?: number | undefined;
  readonly maxSequences: number;
  /** 0: as the executor chooses for its device. */
  readonly maxStepTokens: number;
  /** 0: room for the context × sequences. */
  readonly kvMemoryBytes: number;
  readonly kvCacheType: 'f32' | 'f16';
  readonly pipelineDepth: number;
  readonly prefixCache: boolean;
  /** See {@link Engine}'s options. */
  readonly checkEveryStep?: boolean | undefined;
  readonly pauseLimitMs?: number | undefined;
  readonly stepTimeoutMs: number;
  readonly maxQueuedRequests: number;
  readonly maxQueuedTokens: number;
  readonly maxQueuedRequestsPerPeer?: number | undefined;
  /** The highest priority that a request may have; default 0. */
  readonly maxPriority?: number | undefined;
  readonly maxRestarts: number;
  /** How long an executor's load may go without progress; default 2 min. */
  readonly loadTimeoutMs?: number | undefined;
  /** Folder that keeps the last faults; absent: they are logged alone. */
  readonly stateFolder?: string | undefined;
  /** `HOST:PORT` of Prometheus metrics; absent: none are served. */
  readonly metricsListen?: string | undefined;
  readonly onProgress?: ((doneBytes: number, totalBytes: number) => void) | undefined;
}

/** A gateway that serves. */
export interface Gateway {
  /** The port it is bound to; 0 for a socket file. */
  readonly port: number;
  readonly modelName: string;
  readonly contextLength: number;
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
  readonly engine: Engine;
  readonly server: PublicServer;
  readonly metrics: Metrics;
  /**
   * Takes no more requests and ends when those under way have, or when the time is over.
   *
   * @returns whether all of them ended by themselves
   */
  drain(timeoutMs: number): Promise<boolean>;
  /** Ends at once; streams under way are cut. */
  stop(): Promise<void>;
}

const DRAIN_POLL_MS = 50;
/** How long connections without calls may take to end. */
const FLUSH_MS = 1000;
const LOAD_TIMEOUT_MS = 120_000;
const FAULTS_KEPT = 32;

/**
 * Starts a gateway and its executor. Resolves when requests are served.
 *
 * @throws RocmForgeError why it cannot: model file, address, executor
 */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const log = createLogger('gateway');
  const model = readServedModel(options.model, {
    ...(options.modelName !== undefined && { name: options.modelName }),
    ...(options.maxContext !== undefined && { maxContext: options.maxContext }),
    ...(options.maxPriority !== undefined && { maxPriority: options.maxPriority }),
  });
  const { file: modelFile, tokenizer, hasChatTemplate, facts } = model;
  const encoder = new EncodeService({ modelFile, tokenizer, hasChatTemplate, facts, workerFile: encodeWorkerFile() });
  const engine = new Engine(options, log);
  const health = new HealthImplementation({ '': 'NOT_SERVING', [INFERENCE_SERVICE]: 'NOT_SERVING' });
  let told = 'NOT_SERVING';
  const setHealth = (status: 'SERVING' | 'NOT_SERVING'): void => {
    // Each setting reaches those who watch: only changes are news.
    if (status === told) return;
    told = status;
    for (const name of ['', INFERENCE_SERVICE]) health.setStatus(name, status);
  };
  let device = '';
  /** Why no executor can go on with this file; absent while one can. */
  let unservable: RocmForgeError | undefined;
  let draining = false;
  const faults: Fault[] = [];
  const supervisor = new Supervisor(
    {
      executor:
        'spawn' in options.executor
          ? { spawn: { ...options.executor.spawn, modelDescriptor: model.file.descriptor } }
          : options.executor,
      checkModelFile: () => model.file.check(),
      vocabularySize: model.vocabularySize,
      stepTimeoutMs: options.stepTimeoutMs,
      loadTimeoutMs: options.loadTimeoutMs ?? LOAD_TIMEOUT_MS,
      maxRestarts: options.maxRestarts,
      stateFolder: options.stateFolder,
      load: {
        path: options.model,
        kvCacheType: options.kvCacheType === 'f32' ? KvCacheType.F32 : KvCacheType.F16,
        maxContext: model.contextLength,
        maxSequences: options.maxSequences,
        maxStepTokens: options.maxStepTokens,
        kvMemoryBytes: BigInt(options.kvMemoryBytes),
        fingerprint: model.file.identity,
      },
    },
    {
      state: (state, cause) => {
        const status = state === 'serving' ? 'SERVING' : 'NOT_SERVING';
        if (!draining) setHealth(status);
        if (state === 'failed') engine.fail(unservable ?? withoutExecutor(cause));
      },
      progress: (done, total) => options.onProgress?.(done, total),
      serving: (session: ExecutorSession) => {
        device = session.info.device;
        unservable = undefined;
        engine.serve(session);
      },
      unservable: (error) => {
        unservable = error;
        engine.fail(error);
      },
      lost: () => engine.lose(),
      judged: (loss) => engine.judge(loss),
      fault: (fault) => {
        faults.push(fault);
        if (faults.length > FAULTS_KEPT) faults.shift();
      },
      restarts: (reason) => metrics.executorLost(reason),
      recovered: (seconds) => metrics.executorRecovered(seconds),
    },
    log,
  );
  engine.attach(supervisor);
  const metrics = new Metrics(metricsSource(engine, supervisor));
  engine.onAdmitted = (waitedMs) => metrics.queued(waitedMs / 1000);

  const readiness = () => ({ ready: supervisor.state === 'serving' && !draining, device });
  const service = new InferenceService(model, encoder, new RequestRunner(tokenizer, engine, metrics, log), readiness);
  const server = await openPublicServer(options.listen, service, health, options, log);
  let metricsServer: MetricsServer | undefined;
  const close = async (): Promise<void> => {
    server.stop();
    metricsServer?.close();
    await supervisor.stop();
    await encoder.close();
    model.file.close();
  };
  let closed: Promise<void> | undefined;
  const stop = (): Promise<void> => {
    closed ??= close();
    return closed;
  };
  try {
    if (options.metricsListen) metricsServer = await serveMetrics(metrics, options.metricsListen);
    encoder.warm();
    await supervisor.start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    port: server.port,
    modelName: model.name,
    contextLength: model.contextLength,
    executorPid: () => supervisor.pid,
    executorAddress: () => supervisor.address,
    executorState: () => supervisor.state,
    faults,
    executorGenerations: () => supervisor.generations,
    engine,
    server,
    metrics,
    drain: async (timeoutMs) => {
      draining = true;
      setHealth('NOT_SERVING');
      engine.stopAdmission();
      // An answer that its reader has not taken is not given yet, though nothing is computed for it any more.
      const isBusy = (): boolean => engine.active > 0 || server.calls.unansweredCalls > 0;
      const deadline = performance.now() + timeoutMs;
      while (isBusy() && performance.now() < deadline) {
        await new Promise((resolve) => setTimeout(resolve, DRAIN_POLL_MS));
      }
      const finished = !isBusy();
      // What the last streams were sent is with the system, and connections end in order where their clients let them.
      if (finished) await Promise.race([server.shutDown(), new Promise((resolve) => setTimeout(resolve, FLUSH_MS))]);
      await stop();
      return finished;
    },
    stop,
  };
}

/** What requests are told while no executor can be had. */
function withoutExecutor(cause: RocmForgeError | undefined): RocmForgeError {
  const why = cause?.reason === 'EXECUTOR_BUSY' ? cause.message : 'the executor ends again and again';
  return new RocmForgeError('EXECUTOR_UNAVAILABLE', `${why}; it is tried more slowly now`, {
    retry_delay_ms: String(PROBE_INTERVAL_MS),
  });
}

function metricsSource(engine: Engine, supervisor: Supervisor): MetricsSource {
  const scheduler = () => engine.schedulerState;
  return {
    runningSequences: () => scheduler()?.runningCount ?? 0,
    waitingSequences: () => scheduler()?.waitingCount ?? 0,
    kvUsage: () => {
      const blocks = scheduler()?.blocks;
      return blocks ? 1 - blocks.freeCount / blocks.capacity : 0;
    },
    preemptions: () => scheduler()?.counters.preemptions ?? 0,
    cachedTokens: () => scheduler()?.counters.cachedTokens ?? 0,
    slotsYielded: () => scheduler()?.counters.slotsYielded ?? 0,
    discardedTokens: () => scheduler()?.counters.discardedTokens ?? 0,
    replayed: () => engine.counters.replayed,
    quarantined: () => engine.counters.quarantined,
    nonFinite: () => engine.counters.nonFinite,
    executorUp: () => supervisor.state === 'serving',
    generation: () => supervisor.generations,
    lastStepAgeSeconds: () => supervisor.oldestStepAgeMs / 1000,
  };
}
