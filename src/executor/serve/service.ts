// One file because load, stream of steps and end of an executor are one state, and each decides what the others may do.
import path from 'node:path';
import type { ServerDuplexStream, ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import { FAULT_PHASES, type FaultPhase } from '../../shared/fault-record.js';
import {
  type ExecuteRequest,
  type ExecuteResponse,
  type ExecutorServiceServer,
  type GetDeviceStatsRequest,
  GetDeviceStatsResponse,
  type GetInfoRequest,
  GetInfoResponse,
  type LoadModelRequest,
  LoadModelResponse,
} from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { Health } from '../../shared/grpc/health.js';
import { toStatus } from '../../shared/grpc/status.js';
import { wellFormed } from '../../shared/grpc/strict.js';
import type { Logger } from '../../shared/log.js';
import { packageVersion } from '../../shared/package.js';
import { loadAddon } from '../device/addon.js';
import type { Device } from '../device/device.js';
import { describeDevices, statsOf } from '../device/device-group.js';
import { randomIdentity } from '../device/kept-memory.js';
import type { LoadOptions } from '../load/load-options.js';
import { type LoadedModel, loadModel } from '../load/loaded-model.js';
import { selfTest } from '../load/self-test.js';
import { asksForChecksums, hasSlotWork } from '../steps/step-checksums.js';
import { StepRunner } from '../steps/step-runner.js';
import type { FaultInjector } from './fault-injection.js';
import { HangWatch } from './hang-watch.js';
import { IdleWork } from './idle-work.js';
import { Lease } from './lease.js';
import { checkRelease, type LoadingProcess, loadOptionsOf } from './load-request.js';
import { describeModel } from './model-description.js';

/** Exit code of an executor whose device reported a sticky error. */
export const STICKY_EXIT_CODE = 86;

/** When to ask again who met another's load. */
const LOAD_RETRY_MS = 1000;
/** Milliseconds that an ending process waits for watchers of its health to receive the news. */
const LAST_WORDS_MS = 10;

export const EXECUTOR_SERVICE = 'rocmforge.executor.v1.ExecutorService';

type ExecuteStream = ServerDuplexStream<ExecuteRequest, ExecuteResponse>;

/** The executor's gRPC face: one device, or several of one kind; at most one model, one stream of steps. */
export class ExecutorService {
  readonly health = new Health([EXECUTOR_SERVICE]);
  private model: LoadedModel | undefined;
  private runner: StepRunner | undefined;
  private stream: ExecuteStream | undefined;
  /** Streams that have shown whose they are. */
  private readonly begun = new WeakSet<ExecuteStream>();
  private loading = false;
  /** Identity of the memory with KV blocks, as its gateway knows it. */
  private kvMemory = 0n;
  private isEnding = false;
  private readonly watch: HangWatch;
  private readonly lease: Lease;
  private readonly idleWork: IdleWork;

  constructor(
    private readonly devices: readonly Device[],
    private readonly log: Logger,
    private readonly options: LoadingProcess & {
      readonly stepTimeoutMs: number;
      readonly leaseMs: number;
      /** Somebody else watches and ends it. */
      readonly dieWithParent: boolean;
    },
    private readonly testing: { readonly stepDelayMs?: number; readonly fault?: FaultInjector | undefined } = {},
  ) {
    this.watch = new HangWatch(() => this.runner, options.stepTimeoutMs, {
      hangs: (overdueMs) => this.hangs(overdueMs),
      goesOn: () => this.health.setServing(!this.isEnding),
      isLost: () => this.isLost(),
    });
    this.lease = new Lease(options.leaseMs, this.watch.clock);
    const serving = () => (this.loading ? undefined : this.runner);
    this.idleWork = new IdleWork(devices, serving, (error) => {
      if (!isSticky(error)) throw error;
      this.endAfterStickyError(error);
    });
  }

  /** Common parts of all results. */
  private get first(): Device {
    return this.devices[0] as Device;
  }

  private sumOf(of: (device: Device) => number): number {
    return this.devices.reduce((sum, device) => sum + of(device), 0);
  }

  /** Exit code of the process: stopped in its last words, it still ends for its own reason. */
  get exitCode(): number {
    return this.isEnding ? STICKY_EXIT_CODE : 0;
  }

  /** The handlers to register with a server. */
  get handlers(): ExecutorServiceServer {
    return {
      getInfo: (call, callback) => this.getInfo(call, callback),
      loadModel: (call) => void this.loadModel(call),
      execute: (call) => this.execute(call),
      getDeviceStats: (call, callback) => this.getDeviceStats(call, callback),
    };
  }

  private getInfo(_call: ServerUnaryCall<GetInfoRequest, GetInfoResponse>, callback: sendUnaryData<GetInfoResponse>) {
    callback(
      null,
      GetInfoResponse.fromPartial({
        version: packageVersion,
        pid: process.pid,
        device: describeDevices(this.devices),
        platform: this.first.kind,
        target: this.first.target,
        model: this.model && describeModel(this.model, this.first),
      }),
    );
  }

  private async loadModel(call: ServerWritableStream<LoadModelRequest, LoadModelResponse>): Promise<void> {
    if (this.loading) {
      const wait = { retry_delay_ms: String(LOAD_RETRY_MS) };
      call.emit('error', toStatus(new RocmForgeError('EXECUTOR_BUSY', 'another load is under way', wait)));
      return;
    }
    this.loading = true;
    let isNewHolder = false;
    try {
      const request = wellFormed(call.request);
      checkRelease(request.version);
      const load = loadOptionsOf(request, this.options);
      this.refuseOther(load);
      isNewHolder = this.lease.take(request.gateway);
      this.health.setServing(false);
      this.endStream(new RocmForgeError('EXECUTOR_UNAVAILABLE', 'a new epoch begins'));
      await this.watch.stepsEnded();
      this.stamp('loading');
      const model =
        this.model ??
        (await this.load(load, (doneBytes, totalBytes) => {
          call.write({
            event: { $case: 'progress', value: { doneBytes: BigInt(doneBytes), totalBytes: BigInt(totalBytes) } },
          });
        }));
      // On standby it has not seen what the executor that it follows did to their memory.
      await this.model?.checkWeights();
      const isSame = !isNewHolder && this.model !== undefined;
      if (!isSame) this.kvMemory = this.keptIdentity();
      this.model = model;
      const isKept = isSame || load.savedMemory !== undefined || this.devices.every(({ kept }) => kept?.isFound);
      this.runner = new StepRunner(this.first, model, request.epoch, this.watch.clock, isKept);
      this.lease.heard();
      this.stamp('serving');
      this.health.setServing(true);
      this.log.info({ file: path.basename(load.path), architecture: model.architecture }, 'model ready');
      this.idleWork.begin(this.runner, model, load);
      // A caller that knows the epoch may send steps of it: it is sent to nobody else.
      const loaded = { ...describeModel(model, this.first), epoch: request.epoch, kvMemory: this.kvMemory };
      call.write(LoadModelResponse.fromPartial({ event: { $case: 'loaded', value: loaded } }));
      call.end();
    } catch (error) {
      // A gateway whose load failed has nothing to keep others from.
      if (isNewHolder) this.lease.giveUp();
      call.emit('error', toStatus(error));
      if (isSticky(error)) this.endAfterStickyError(error);
    } finally {
      this.loading = false;
    }
  }

  /**
   * Whoever is refused has disturbed nobody.
   *
   * @throws RocmForgeError `INVALID_OPTION` when a model is loaded that is not the one asked for; `MODEL_FILE_CHANGED`
   */
  private refuseOther(options: LoadOptions): void {
    const { model } = this;
    if (model === undefined) return;
    if (JSON.stringify(model.options) !== JSON.stringify(options)) {
      throw new RocmForgeError('INVALID_OPTION', 'another model or other limits are loaded; start a new executor');
    }
    if (model.weights.readsFile) model.weights.checkFiles();
  }

  private async load(options: LoadOptions, onProgress: (done: number, total: number) => void): Promise<LoadedModel> {
    const model = await loadModel(this.devices, options, onProgress);
    if (model.captureMs !== undefined) {
      const graphs = model.graphs.buckets.all().length;
      this.log.info({ graphs, ms: Math.round(model.captureMs) }, 'graphs captured');
    }
    if (model.restoredWeights > 0) this.log.warn(`damaged weights were loaded again: ${model.restoredWeights}`);
    try {
      this.stamp('self-test');
      const began = performance.now();
      for (const device of [...this.devices, ...(model.hostDevice ? [model.hostDevice] : [])]) await selfTest(device);
      this.log.info({ ms: Math.round(performance.now() - began) }, 'self-test passed');
      return model;
    } catch (error) {
      // It will not serve: at an address this process stays, and is asked again.
      model.release();
      throw error;
    }
  }

  /** Identity of what the memory of all devices holds: another where that of any is another's. */
  private keptIdentity(): bigint {
    const identities = this.devices.map(({ kept }) => kept?.identity() ?? randomIdentity());
    return identities.reduce((all, one) => BigInt.asUintN(64, all * 0x100000001b3n + one)) | 1n;
  }

  private stamp(phase: FaultPhase): void {
    loadAddon().stampPhase(FAULT_PHASES.indexOf(phase));
  }

  /** Not serving while a step is overdue. */
  private hangs(overdueMs: number): void {
    this.log.error({ ms: Math.round(overdueMs) }, 'a step does not come back');
    this.health.setServing(false);
  }

  /** A standalone executor ends itself so that its service manager restarts it. An executor started by a gateway never gets here: the gateway kills it first. */
  private isLost(): void {
    if (this.options.dieWithParent || this.isEnding) return;
    this.isEnding = true;
    this.log.fatal('the device hangs: this executor ends');
    // An orderly exit waits for the driver, which waits for the device.
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), LAST_WORDS_MS);
  }

  private execute(call: ExecuteStream): void {
    const { runner } = this;
    if (runner === undefined) {
      call.emit('error', toStatus(new RocmForgeError('MODEL_LOADING', 'no model is loaded')));
      return;
    }
    const fail = (error: unknown): void => {
      const told = asRocmForgeError(error);
      if (isSticky(error)) this.endAfterStickyError(error);
      this.log.error({ reason: told.reason, err: told.reason === 'INTERNAL' ? error : undefined }, told.message);
      if (this.stream === call) this.endStream(told);
    };
    let answered = Promise.resolve();
    call.on('data', (step: ExecuteRequest) => {
      // A stream is its gateway's from its first frame on: whoever cannot name the epoch takes nothing from anybody.
      if (this.stream !== call && !this.mayBegin(call, step, runner)) return;
      this.lease.heard();
      try {
        wellFormed(step);
      } catch (error) {
        fail(error);
        return;
      }
      if (!hasSlotWork(step) && !asksForChecksums(step)) {
        // An ended epoch's request has no effect.
        if (step.epoch !== runner.epoch) return;
        try {
          runner.takeMasks(step);
        } catch (error) {
          fail(error);
        }
        return;
      }
      const { stepDelayMs = 0, fault } = this.testing;
      // A planted fault happens where a real one would: when the steps before it have run.
      const response =
        fault === undefined
          ? runner.submit(step)
          : answered.then(() => fault.before(step)).then(() => runner.submit(step));
      // Its failure is told in its turn below; until then it must not count as unhandled.
      response.catch(() => undefined);
      answered = answered
        .then(async () => {
          if (stepDelayMs > 0) await new Promise((resolve) => setTimeout(resolve, stepDelayMs));
          const answer = await response;
          if (this.stream === call) call.write(answer);
        })
        .catch(fail);
    });
    // No more steps come, those that did are still answered, and the executor is free. A connection that is lost is another
    // matter: the gateway may be back in a moment.
    call.on('end', () => {
      void answered.then(() => {
        if (this.stream === call) this.lease.giveUp();
        this.letGo(call);
        call.end();
      });
    });
    call.on('error', () => this.letGo(call));
    call.on('cancelled', () => this.letGo(call));
  }

  /** True if a stream becomes the one that is served; one that cannot is ended. */
  private mayBegin(call: ExecuteStream, step: ExecuteRequest, runner: StepRunner): boolean {
    if (this.begun.has(call)) return false;
    this.begun.add(call);
    const refuse = (reason: 'EXECUTOR_UNAVAILABLE' | 'EXECUTOR_BUSY', message: string): false => {
      call.emit('error', toStatus(new RocmForgeError(reason, message)));
      return false;
    };
    if (runner !== this.runner || step.epoch !== runner.epoch) {
      return refuse('EXECUTOR_UNAVAILABLE', 'this stream belongs to an epoch that has ended or is not yours');
    }
    // A gateway whose stream broke loads anew, which ends the old one.
    if (this.stream !== undefined) return refuse('EXECUTOR_BUSY', 'this epoch has a stream');
    this.stream = call;
    return true;
  }

  private letGo(call: ExecuteStream): void {
    if (this.stream === call) this.stream = undefined;
  }

  private getDeviceStats(
    _call: ServerUnaryCall<GetDeviceStatsRequest, GetDeviceStatsResponse>,
    callback: sendUnaryData<GetDeviceStatsResponse>,
  ) {
    const stats = this.runner?.stats;
    const age = stats?.lastStepAgeMs;
    callback(
      null,
      GetDeviceStatsResponse.fromPartial({
        device: describeDevices(this.devices),
        usedBytes: BigInt(this.sumOf(({ usedBytes }) => usedBytes)),
        totalBytes: BigInt(this.sumOf(({ totalBytes }) => totalBytes)),
        ...statsOf(this.devices),
        steps: BigInt(stats?.steps ?? 0),
        ...(age !== undefined && { lastStepAgeMs: BigInt(Math.round(age)) }),
      }),
    );
  }

  /** Nothing this process holds on the device can be trusted: it ends, and another takes its place. */
  private endAfterStickyError(error: Error): void {
    if (this.isEnding) return;
    this.isEnding = true;
    this.log.fatal({ err: error }, 'the device reported an error it cannot recover from');
    this.health.setServing(false);
    setTimeout(() => process.exit(STICKY_EXIT_CODE), LAST_WORDS_MS);
  }

  private endStream(error: RocmForgeError): void {
    const { stream } = this;
    this.stream = undefined;
    stream?.emit('error', toStatus(error));
  }
}

/** True for an error after which nothing on the device can be used in this process. */
function isSticky(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return (error as Error & { sticky?: boolean }).sticky === true || isSticky(error.cause);
}
