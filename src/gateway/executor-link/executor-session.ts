import { type ClientDuplexStream, credentials, type ServiceError } from '@grpc/grpc-js';
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
import type { Pace } from './pace.js';

/** Who hears of a session's steps. `lost` comes once, and nothing after it. */
export interface SessionListener {
  result(response: ExecuteResponse): void;
  lost(error: RocmForgeError): void;
}

/** One generation of one executor: a connection, a loaded model and the stream of steps. */
export class ExecutorSession {
  private stream: ClientDuplexStream<ExecuteRequest, ExecuteResponse> | undefined;
  private listener: SessionListener | undefined;
  /** Rows of each step under way, oldest first. */
  private readonly rowsInFlight: number[] = [];
  /** When the oldest step under way could begin: it was sent, and the one before it had come back. */
  private oldestSince = 0;

  private constructor(
    private readonly client: ExecutorServiceClient,
    readonly info: GetInfoResponse,
    readonly model: LoadedModel,
    readonly generation: bigint,
    private readonly pace: Pace,
  ) {}

  /**
   * Connects and loads the model.
   *
   * @param pace how long steps took so far; it outlives the session, so that a new executor is held to what the last one did
   * @param connectTimeoutMs how long to wait for somebody to listen at the address
   * @throws RocmForgeError the executor's own error, or `EXECUTOR_UNAVAILABLE`
   */
  static async open(
    address: string,
    request: LoadModelRequest,
    pace: Pace,
    connectTimeoutMs: number,
    onProgress: (doneBytes: number, totalBytes: number) => void,
  ): Promise<ExecutorSession> {
    const client = new ExecutorServiceClient(address, credentials.createInsecure(), {
      'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
      'grpc.max_send_message_length': -1,
      'grpc.initial_reconnect_backoff_ms': 20,
      'grpc.max_reconnect_backoff_ms': 200,
      // A stale idle connection to a socket path that a new process now owns must not be found again.
      'grpc.use_local_subchannel_pool': 1,
    });
    try {
      await new Promise<void>((resolve, reject) =>
        client.waitForReady(Date.now() + connectTimeoutMs, (error) => (error ? reject(error) : resolve())),
      );
      const info = await new Promise<GetInfoResponse>((resolve, reject) =>
        client.getInfo({}, (error, response) => (error ? reject(fromServiceError(error)) : resolve(response))),
      );
      const model = await load(client, request, onProgress);
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
      const now = performance.now();
      this.pace.observe(this.rowsInFlight.shift() ?? 1, now - this.oldestSince);
      this.oldestSince = now;
      this.listener?.result(response);
    });
    stream.on('error', (error: ServiceError) => this.lose(fromServiceError(error)));
    stream.on('end', () => this.lose(new RocmForgeError('EXECUTOR_UNAVAILABLE', 'the executor ended the stream')));
  }

  submit(step: ExecuteRequest): void {
    if (this.rowsInFlight.length === 0) this.oldestSince = performance.now();
    this.rowsInFlight.push(step.slices.reduce((rows, slice) => rows + slice.count, 0));
    this.stream?.write(step);
  }

  /**
   * How long the oldest step has been under way, when that is too long for its size and what steps took before.
   *
   * @param floorMs the least time a step gets
   */
  overdueMs(floorMs: number): number | undefined {
    const [rows] = this.rowsInFlight;
    if (rows === undefined) return undefined;
    const age = performance.now() - this.oldestSince;
    return age > Math.max(floorMs, this.pace.deadlineMs(rows)) ? age : undefined;
  }

  /** Milliseconds since the oldest step under way could begin; 0 when there is none. */
  get oldestStepAgeMs(): number {
    return this.rowsInFlight.length === 0 ? 0 : performance.now() - this.oldestSince;
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
  onProgress: (doneBytes: number, totalBytes: number) => void,
): Promise<LoadedModel> {
  return new Promise((resolve, reject) => {
    const call = client.loadModel(request);
    let loaded: LoadedModel | undefined;
    call.on('data', ({ event }) => {
      if (event?.$case === 'loaded') loaded = event.value;
      if (event?.$case === 'progress') onProgress(Number(event.value.doneBytes), Number(event.value.totalBytes));
    });
    call.on('error', (error: ServiceError) => reject(fromServiceError(error)));
    call.on('end', () => {
      if (loaded) resolve(loaded);
      else reject(new RocmForgeError('EXECUTOR_PROTOCOL', 'the executor ended the load without a model'));
    });
  });
}
