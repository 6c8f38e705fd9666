import { type ClientDuplexStream, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import {
  type ExecuteRequest,
  type ExecuteResponse,
  ExecutorServiceClient,
  type GetInfoResponse,
  type LoadedModel,
  type LoadModelRequest,
} from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { MAX_MESSAGE_BYTES } from '../../shared/grpc/server.js';
import { fromServiceError } from '../../shared/grpc/status.js';
import type { Pace } from '../../shared/pace.js';
import { StepWatch } from '../../shared/step-watch.js';

/** Who hears of a session's steps. `lost` comes once, and nothing after it. */
export interface SessionListener {
  result(response: ExecuteResponse): void;
  lost(error: RocmForgeError): void;
}

/** How a session comes about, and who hears of it. */
export interface SessionOpening {
  /** How long to wait for somebody to listen at the address, and then to answer. */
  readonly connectTimeoutMs: number;
  /** How long the load may go without progress. */
  readonly loadTimeoutMs: number;
  /** Aborted when the process has ended. */
  readonly abandoned: AbortSignal;
  onAnswer(): void;
  onProgress(doneBytes: number, totalBytes: number): void;
}

/** One generation of one executor: a connection, a loaded model and the stream of steps. */
export class ExecutorSession {
  private stream: ClientDuplexStream<ExecuteRequest, ExecuteResponse> | undefined;
  private listener: SessionListener | undefined;
  /** Since when the oldest step has been under way. */
  readonly watch: StepWatch;

  private constructor(
    private readonly client: ExecutorServiceClient,
    readonly info: GetInfoResponse,
    readonly model: LoadedModel,
    readonly generation: bigint,
    pace: Pace,
  ) {
    this.watch = new StepWatch(pace);
  }

  /**
   * Connects and loads the model.
   *
   * @param pace how long steps took so far; it outlives the session, so that a new executor is held to what the last one did
   * @throws RocmForgeError the executor's own error, or `EXECUTOR_UNAVAILABLE`
   */
  static async open(
    address: string,
    request: LoadModelRequest,
    pace: Pace,
    opening: SessionOpening,
  ): Promise<ExecutorSession> {
    const client = new ExecutorServiceClient(address, credentials.createInsecure(), {
      'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
      'grpc.max_send_message_length': -1,
      'grpc.initial_reconnect_backoff_ms': 20,
      'grpc.max_reconnect_backoff_ms': 200,
      // A stale idle connection to a socket path that a new process now owns must not be found again.
      'grpc.use_local_subchannel_pool': 1,
    });
    // Nobody will ever answer: no need to try until the time is over.
    opening.abandoned.addEventListener('abort', () => client.close(), { once: true });
    try {
      await new Promise<void>((resolve, reject) =>
        client.waitForReady(Date.now() + opening.connectTimeoutMs, (error) => (error ? reject(error) : resolve())),
      );
      const info = await new Promise<GetInfoResponse>((resolve, reject) =>
        client.getInfo({}, new Metadata(), { deadline: Date.now() + opening.connectTimeoutMs }, (error, response) =>
          error ? reject(fromServiceError(error)) : resolve(response),
        ),
      );
      opening.onAnswer();
      const model = await load(client, request, opening);
      return new ExecutorSession(client, info, model, request.generation, pace);
    } catch (error) {
      client.close();
      if (error instanceof RocmForgeError) throw error;
      throw new RocmForgeError(
        'EXECUTOR_UNAVAILABLE',
        `no executor answers at ${address}: ${(error as Error).message}`,
      );
    }
  }

  /** Opens the stream of steps. */
  start(listener: SessionListener): void {
    this.listener = listener;
    const stream = this.client.execute();
    this.stream = stream;
    stream.on('data', (response: ExecuteResponse) => {
      if (response.generation !== this.generation) return;
      this.watch.end();
      this.listener?.result(response);
    });
    stream.on('error', (error: ServiceError) => this.lose(fromServiceError(error)));
    stream.on('end', () => this.lose(new RocmForgeError('EXECUTOR_UNAVAILABLE', 'the executor ended the stream')));
  }

  submit(step: ExecuteRequest): void {
    this.watch.begin(step.slices.reduce((rows, slice) => rows + slice.count, 0));
    this.stream?.write(step);
  }

  /** Declares the executor gone: it died, or is about to be killed. */
  lose(error: unknown): void {
    const { listener } = this;
    this.listener = undefined;
    this.close();
    listener?.lost(asRocmForgeError(error));
  }

  /** Ends the session without telling the listener. */
  close(): void {
    this.listener = undefined;
    this.stream?.cancel();
    this.stream = undefined;
    this.client.close();
  }
}

function load(
  client: ExecutorServiceClient,
  request: LoadModelRequest,
  { loadTimeoutMs, onProgress }: SessionOpening,
): Promise<LoadedModel> {
  return new Promise((resolve, reject) => {
    const call = client.loadModel(request);
    let loaded: LoadedModel | undefined;
    const stalled = setTimeout(() => {
      call.cancel();
      reject(new RocmForgeError('EXECUTOR_UNAVAILABLE', `the load made no progress for ${loadTimeoutMs} ms`));
    }, loadTimeoutMs);
    call.on('data', ({ event }) => {
      stalled.refresh();
      if (event?.$case === 'loaded') loaded = event.value;
      if (event?.$case === 'progress') onProgress(Number(event.value.doneBytes), Number(event.value.totalBytes));
    });
    call.on('error', (error: ServiceError) => {
      clearTimeout(stalled);
      reject(fromServiceError(error));
    });
    call.on('end', () => {
      clearTimeout(stalled);
      if (loaded) resolve(loaded);
      else reject(new RocmForgeError('EXECUTOR_PROTOCOL', 'the executor ended the load without a model'));
    });
  });
}
