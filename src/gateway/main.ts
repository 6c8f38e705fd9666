import { Server } from '@grpc/grpc-js';
import { HealthImplementation } from 'grpc-health-check';
import { RocmForgeError } from '../shared/errors.js';
import { KvCacheType } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { InferenceServiceService } from '../shared/generated/rocmforge/v1/inference.js';
import { bind, SERVER_OPTIONS } from '../shared/grpc/server.js';
import { strictService } from '../shared/grpc/strict.js';
import { createLogger } from '../shared/log.js';
import { Engine } from './engine.js';
import type { ExecutorSession } from './executor-link/executor-session.js';
import { Supervisor, type SupervisorOptions, type SupervisorState } from './executor-link/supervisor.js';
import { readServedModel } from './served-model.js';
import { INFERENCE_SERVICE, InferenceService } from './server/inference-service.js';

/** How a gateway is started. */
export interface GatewayOptions {
  readonly model: string;
  readonly modelName?: string | undefined;
  /** `HOST:PORT` or `unix:PATH`. */
  readonly listen: string;
  readonly executor: SupervisorOptions['executor'];
  readonly maxContext?: number | undefined;
  readonly maxSequences: number;
  readonly maxStepTokens: number;
  /** 0: room for the context × sequences. */
  readonly kvMemoryBytes: number;
  readonly kvCacheType: 'f32' | 'f16';
  readonly pipelineDepth: number;
  readonly prefixCache: boolean;
  readonly stepTimeoutMs: number;
  readonly maxQueuedRequests: number;
  readonly maxQueuedTokens: number;
  readonly maxRestarts: number;
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
  readonly engine: Engine;
  stop(): Promise<void>;
}

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
  });
  const engine = new Engine(options, log);
  const health = new HealthImplementation({ '': 'NOT_SERVING', [INFERENCE_SERVICE]: 'NOT_SERVING' });
  let device = '';
  const supervisor = new Supervisor(
    {
      executor: options.executor,
      stepTimeoutMs: options.stepTimeoutMs,
      maxRestarts: options.maxRestarts,
      load: {
        path: options.model,
        kvCacheType: options.kvCacheType === 'f32' ? KvCacheType.F32 : KvCacheType.F16,
        maxContext: model.contextLength,
        maxSequences: options.maxSequences,
        maxStepTokens: options.maxStepTokens,
        kvMemoryBytes: BigInt(options.kvMemoryBytes),
        fingerprint: model.fingerprint,
      },
    },
    {
      state: (state: SupervisorState) => {
        const status = state === 'serving' ? 'SERVING' : 'NOT_SERVING';
        for (const name of ['', INFERENCE_SERVICE]) health.setStatus(name, status);
        if (state === 'failed') {
          engine.fail(
            new RocmForgeError(
              'EXECUTOR_UNAVAILABLE',
              'the executor ends again and again; it is tried more slowly now',
              {
                retry_delay_ms: '30000',
              },
            ),
          );
        }
      },
      progress: (done, total) => options.onProgress?.(done, total),
      serving: (session: ExecutorSession) => {
        device = session.info.device;
        engine.serve(session);
      },
      lost: () => engine.lose(),
    },
    log,
  );
  engine.attach(supervisor);

  const server = new Server(SERVER_OPTIONS);
  const service = new InferenceService(model, engine, () => ({ ready: supervisor.state === 'serving', device }), log);
  server.addService(strictService(InferenceServiceService), service.handlers);
  health.addToServer(server);
  const port = await bind(server, options.listen);
  const stop = async (): Promise<void> => {
    server.forceShutdown();
    await supervisor.stop();
    await model.encoder.close();
  };
  try {
    await supervisor.start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    port,
    modelName: model.name,
    contextLength: model.contextLength,
    executorPid: () => supervisor.pid,
    engine,
    stop,
  };
}
