import { Server, type ServerDuplexStream } from '@grpc/grpc-js';
import { HOST_SEQUENCES, STEP_TOKENS } from '../../src/executor/load/load-options.js';
import {
  type ExecuteRequest,
  type ExecuteResponse,
  ExecutorServiceService,
  GetDeviceStatsResponse,
  GetInfoResponse,
  LoadedModel,
  type LoadModelRequest,
  type LoadModelResponse,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { bind, type GrpcListener, SERVER_OPTIONS } from '../../src/shared/grpc/server.js';
import { packageVersion } from '../../src/shared/package.js';
import type { TlsMaterial } from '../../src/shared/tls.js';
import { FakeDevice, type FakeVocabulary } from './fake-device.js';
import { StepClock } from './step-clock.js';
import { ScriptChoice, type TurnScripts } from './turn-scripts.js';

export interface FakeExecutorOptions {
  readonly vocabulary: FakeVocabulary;
  /** KV blocks, the null block included. */
  readonly kvBlocks: number;
  /** Milliseconds a step takes. */
  readonly stepMs: number;
  /** First tokens of every sequence. */
  readonly script?: readonly number[] | TurnScripts;
  /** Time that masks are waited for; default 0.3 ms. */
  readonly lateMs?: number;
}

const LATE_MS = 0.3;

/**
 * An executor without a model, over real gRPC: steps take the time they are given, tokens follow from the tokens before
 * them, and each rule of KV blocks is checked. A step that breaks one ends the stream with INTERNAL and is kept in
 * {@link failure}.
 */
export class FakeExecutor {
  failure: Error | undefined;
  device: FakeDevice | undefined;
  /** Its own description. */
  info: Partial<GetInfoResponse> = { version: packageVersion, platform: 'fake', target: 'fake' };
  /** Its claims about the loaded model, in place of the truth. */
  claims: Partial<LoadedModel> = {};
  /** Messages that are sent for a response: it alone, unless a test wants something else. */
  rewrite: (response: ExecuteResponse) => readonly ExecuteResponse[] = (response) => [response];
  /** Hears of each frame. */
  heard: (frame: ExecuteRequest) => void = () => undefined;
  private readonly server = new Server(SERVER_OPTIONS);
  private listener: GrpcListener | undefined;
  private readonly clock = new StepClock();
  private stalled: Promise<void> = Promise.resolve();
  private release: (() => void) | undefined;
  private epoch = 0n;
  /** Masks that were pending, by step and slot. */
  private readonly came = new Map<bigint, Map<number, number>>();
  private current: ServerDuplexStream<ExecuteRequest, ExecuteResponse> | undefined;

  constructor(private readonly options: FakeExecutorOptions) {
    this.server.addService(ExecutorServiceService, {
      getInfo: (_call: unknown, callback: (error: null, response: GetInfoResponse) => void) =>
        callback(null, GetInfoResponse.fromPartial({ pid: process.pid, device: 'fake', ...this.info })),
      loadModel: (call: { request: LoadModelRequest; write(message: LoadModelResponse): void; end(): void }) => {
        call.write({ event: { $case: 'loaded', value: this.load(call.request) } });
        call.end();
      },
      execute: (call: ServerDuplexStream<ExecuteRequest, ExecuteResponse>) => this.execute(call),
      getDeviceStats: (_call: unknown, callback: (error: null, response: GetDeviceStatsResponse) => void) =>
        callback(null, GetDeviceStatsResponse.fromPartial({ device: 'fake', steps: BigInt(this.device?.steps ?? 0) })),
    });
  }

  /** Starts to listen. @returns the port; 0 for a socket file */
  async listen(address: string, tls?: TlsMaterial): Promise<number> {
    this.listener = await bind(this.server, address, { tls });
    return this.listener.port;
  }

  /** From now on no step is answered, until the function that is returned is called. */
  stall(): () => void {
    this.stalled = new Promise((resolve) => {
      this.release = resolve;
    });
    return () => this.release?.();
  }

  async stop(): Promise<void> {
    this.release?.();
    this.listener?.close();
    this.server.forceShutdown();
    await this.clock.stop();
  }

  private load(request: LoadModelRequest): LoadedModel {
    const { maxContext, epoch, fingerprint } = request;
    // As a real one on the host chooses where it is left to it.
    const maxSequences = request.maxSequences || HOST_SEQUENCES;
    const maxStepTokens = request.maxStepTokens || STEP_TOKENS;
    const { vocabulary, script = [] } = this.options;
    this.epoch = epoch;
    const claimed = LoadedModel.fromPartial({
      architecture: 'fake',
      vocabularySize: vocabulary.size,
      maxContext,
      maxSequences,
      maxStepTokens,
      // As many as were put there, and no more than all sequences could fill, as a real one has it.
      kvBlocks: Math.min(this.options.kvBlocks, 1 + maxSequences * Math.ceil(maxContext / 16)),
      kvBlockTokens: 16,
      epoch,
      fingerprint,
      maskIds: 64 + 4 * maxSequences,
      recurrent: false,
      ...this.claims,
    });
    const { kvBlocks } = claimed;
    const limits = { maxSequences, maxStepTokens: claimed.maxStepTokens, kvBlocks };
    this.device = new FakeDevice(limits, vocabulary, new ScriptChoice(script));
    return claimed;
  }

  /** Waits a little for the masks of a step that is computed otherwise, as a real executor does. */
  private async pendingMasks({ stepId, slices }: ExecuteRequest): Promise<ReadonlyMap<number, number>> {
    const pending = slices.filter(({ mask }) => mask?.id === 0).length;
    const came = (): ReadonlyMap<number, number> => this.came.get(stepId) ?? new Map();
    const end = performance.now() + (this.options.lateMs ?? LATE_MS);
    while (came().size < pending && performance.now() < end) await new Promise((resolve) => setImmediate(resolve));
    this.came.delete(stepId - 1n);
    return came();
  }

  private execute(call: ServerDuplexStream<ExecuteRequest, ExecuteResponse>): void {
    const device = this.device as FakeDevice;
    this.current = call;
    let before: Promise<unknown> = Promise.resolve();
    call.on('data', (step: ExecuteRequest) => {
      this.heard(step);
      // Now, as a real executor does: masks that come meanwhile for the step before may be among these.
      device.learn(step.masks);
      if (step.slotMasks.length > 0) {
        const stepId = hasStep(step) ? step.stepId - 1n : step.stepId;
        const came = this.came.get(stepId) ?? new Map<number, number>();
        for (const { slot, mask } of step.slotMasks) came.set(slot, mask);
        this.came.set(stepId, came);
      }
      if (!hasStep(step)) return;
      const over = this.clock.run(this.options.stepMs);
      const computed = Promise.all([over, before, this.stalled]);
      before = computed
        .then(() => this.pendingMasks(step))
        .then((came) => {
          // Steps that a gateway had still requested when it gave this executor up.
          if (this.failure !== undefined || this.current !== call || call.cancelled) return;
          try {
            if (step.epoch !== this.epoch) throw new Error(`a step of epoch ${step.epoch}`);
            const answer = { ...device.run(step, came), deviceUs: 1000 * this.options.stepMs };
            for (const response of this.rewrite(answer)) call.write(response);
          } catch (error) {
            this.failure = error as Error;
            call.emit('error', { code: 13, details: (error as Error).message });
          }
        });
    });
    call.on('end', () => call.end());
    call.on('error', () => undefined);
  }
}

const hasStep = ({ slices, closes }: ExecuteRequest): boolean => slices.length > 0 || closes.length > 0;
