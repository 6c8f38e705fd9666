import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { connect as connectSocket, type Socket } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { packageRoot } from '../../src/shared/package.js';
import { FakeExecutor } from '../doubles/fake-executor.js';
import { endProcess } from './command-line.js';
import { FAKE_VOCABULARY } from './fake-gateway.js';
import { writeRandomModel } from './random-model.js';

const CONTEXT = 4096;

/** Open resources of a gateway, and those that it has ended since it started. */
export interface GatewayCounts {
  readonly calls: number;
  readonly refused: number;
  readonly slowSenders: number;
  readonly slowReaders: number;
  readonly connections: number;
  readonly closed: number;
}

/** A gateway in a process of its own, so that its memory can be measured, and a fake executor that serves it. */
export class SeparateGateway {
  private constructor(
    /** Its address: a Unix socket's path. */
    readonly socketFile: string,
    private readonly executor: FakeExecutor,
    private readonly child: ChildProcess,
  ) {}

  /**
   * @param kvBlocks that the executor tells of
   * @param limits   options of the gateway beside those of all such gateways
   */
  static async start(kvBlocks: number, limits: Partial<GatewayOptions>): Promise<SeparateGateway> {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const socketFile = path.join(folder, 'gateway.sock');
    const executor = new FakeExecutor({ vocabulary: FAKE_VOCABULARY, kvBlocks, stepMs: 0 });
    const address = `unix:${path.join(folder, 'executor.sock')}`;
    await executor.listen(address);
    const options = {
      ...{ model: writeRandomModel({ contextLength: CONTEXT }), listen: `unix:${socketFile}`, executor: { address } },
      ...{ maxSequences: 4, maxStepTokens: 512, kvMemoryBytes: 0, kvCacheType: 'f32', pipelineDepth: 2 },
      ...{ prefixCache: true, stepTimeoutMs: 60_000, maxQueuedTokens: 1 << 20, maxRestarts: 5 },
      ...{ maxQueuedRequestsPerPeer: limits.maxQueuedRequests, ...limits },
    };
    const script = path.join(packageRoot, 'test/support/gateway-process.mjs');
    const env = { ...process.env, ROCMFORGE_LOG_LEVEL: 'silent' };
    const child = spawn(process.execPath, ['--expose-gc', script, JSON.stringify(options)], { env });
    child.stderr.pipe(process.stderr);
    await new Promise((resolve) => child.stdout.once('data', resolve));
    return new SeparateGateway(socketFile, executor, child);
  }

  get address(): string {
    return `unix:${this.socketFile}`;
  }

  connect(): Socket {
    return connectSocket(this.socketFile);
  }

  residentMb(): number {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${this.child.pid}/status`, 'utf8'))?.[1]) / 1024;
  }

  /** Its resources, after a garbage collection. */
  async counts(): Promise<GatewayCounts> {
    const line = new Promise<string>((resolve) => this.child.stdout?.once('data', (data) => resolve(String(data))));
    this.child.kill('SIGUSR2');
    return JSON.parse(await line) as GatewayCounts;
  }

  async stop(): Promise<void> {
    await this.executor.stop();
    await endProcess(this.child, 'SIGKILL');
  }
}
