import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type Logger, pino } from 'pino';
import type { RemoteExecutor } from '../../src/gateway/replica/link/remote-executor.js';
import { Replica, type ReplicaListener } from '../../src/gateway/replica/replica.js';
import { RequestRunner } from '../../src/gateway/request/runner.js';
import { readServedModel } from '../../src/gateway/request/served-model.js';
import { Router } from '../../src/gateway/router.js';
import { Limiter } from '../../src/gateway/trust/limiter.js';
import { NO_LIMITS } from '../../src/gateway/trust/limits.js';
import { KvCacheType } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { FakeExecutor } from '../doubles/fake-executor.js';
import { FAKE_VOCABULARY } from './fake-gateway.js';
import { greedyParameters } from './greedy-parameters.js';
import { writeRandomModel } from './random-model.js';

const CONTEXT = 2048;
const LOG = pino({ level: 'silent' });
const NOBODY: ReplicaListener = {
  state: () => undefined,
  progress: () => undefined,
  admitted: () => undefined,
  fault: () => undefined,
  restarts: () => undefined,
  recovered: () => undefined,
  executorLost: () => undefined,
  hasRoom: () => undefined,
};

const addressOf = () => `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'executor.sock')}`;

/** A replica before an executor elsewhere, with limits of its own. */
export function replicaAt(executor: RemoteExecutor, maxSequences: number, log: Logger = LOG): Replica {
  const load = {
    path: 'model.gguf',
    kvCacheType: KvCacheType.F32,
    maxContext: CONTEXT,
    maxSequences,
    maxStepTokens: 64,
    draftTokens: 0,
    predicts: false,
    deviceMemoryBytes: 0n,
    kvMemoryBytes: 0n,
    fingerprint: 'model',
  };
  const supervisor = {
    executor,
    load,
    vocabularySize: FAKE_VOCABULARY.size,
    checkModelFile: () => undefined,
    confirmContent: () => undefined,
    stepTimeoutMs: 60_000,
    loadTimeoutMs: 60_000,
    maxRestarts: 100,
  };
  const queue = { maxQueuedRequests: 64, maxQueuedTokens: 1 << 16 };
  return new Replica({ ...queue, supervisor, pipelineDepth: 2, prefixCache: true, checkEveryStep: true }, NOBODY, log);
}

export interface FleetSize {
  readonly kvBlocks: number;
  readonly maxSequences: number;
}

/** Replicas of one router, with executors that compute nothing. */
export class FakeFleet {
  readonly addresses: readonly string[];
  readonly executors: FakeExecutor[] = [];
  readonly replicas: readonly Replica[];
  readonly router: Router;
  private readonly runner: RequestRunner;

  constructor(private readonly sizes: readonly FleetSize[]) {
    this.addresses = sizes.map(addressOf);
    this.replicas = sizes.map(({ maxSequences }, i) =>
      replicaAt({ address: this.addresses[i] as string }, maxSequences),
    );
    this.router = new Router(this.replicas);
    const { tokenizer, file } = readServedModel(writeRandomModel({ contextLength: CONTEXT }), {});
    file.close();
    const observer = {
      requestStarted: () => undefined,
      firstToken: () => undefined,
      tokens: () => undefined,
      completionEnded: () => undefined,
      requestEnded: () => undefined,
    };
    const limiter = new Limiter(() => NO_LIMITS, { rateLimited: () => undefined });
    this.runner = new RequestRunner('model', tokenizer, this.router, observer, limiter, LOG);
  }

  async start(): Promise<void> {
    for (const [i, { kvBlocks }] of this.sizes.entries()) await this.listen(i, kvBlocks);
    await this.router.start();
  }

  /** Starts the executor of a replica. */
  async listen(replica: number, kvBlocks: number): Promise<void> {
    const executor = new FakeExecutor({ vocabulary: FAKE_VOCABULARY, kvBlocks, stepMs: 1 });
    await executor.listen(this.addresses[replica] as string);
    this.executors[replica] = executor;
  }

  async stop(): Promise<void> {
    await this.router.stop();
    for (const executor of this.executors) await executor.stop();
  }

  /** The tokens that follow a prompt. */
  generate(prompt: readonly number[], maxTokens: number): Promise<readonly number[]> {
    const parameters = greedyParameters(Uint32Array.from(prompt), maxTokens);
    return new Promise((resolve, reject) => {
      const ids: number[] = [];
      const context = {
        id: 'r',
        principal: 'p',
        peer: 'p',
        trace: undefined,
        deadline: Number.POSITIVE_INFINITY,
        arrivedAt: 0,
      };
      const sink = {
        chunk: (_index: number, tokenIds: readonly number[]) => ids.push(...tokenIds),
        progress: () => undefined,
        prompt: () => undefined,
        complete: () => resolve(ids),
        error: reject,
      };
      this.runner.run(parameters, sink, new AbortController().signal, context);
    });
  }
}
