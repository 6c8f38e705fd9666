import {
  type ClientDuplexStream,
  type ClientUnaryCall,
  connectivityState,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';
import {
  type ExecuteRequest,
  type ExecuteResponse,
  ExecutorServiceClient,
  type GetDeviceStatsResponse,
  type GetInfoResponse,
  type LoadedModel,
  type LoadModelRequest,
} from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import { MAX_RESULT_BYTES } from '../../../shared/grpc/message-bytes.js';
import { errorInfo, fromServiceError } from '../../../shared/grpc/status.js';
import { StepWatch } from '../../../shared/step-watch.js';
import type { LinkCredentials } from './remote-executor.js';
import { checkInfo, checkModel, type SessionTerms } from './session-terms.js';
import { emptyFrame } from './step-encoding.js';

/** Listener of a session's steps. `lost` comes once, and nothing after it. */
export interface SessionListener {
  /** @throws RocmForgeError what is wrong with the answer; the session is lost by it */
  result(response: ExecuteResponse): void;
  /** @param isAnswer the executor said it, or sent what is not an answer; else nothing more came from it */
  lost(error: RocmForgeError, isAnswer: boolean): void;
}

/** Terms of a session, and its listener. */
export interface SessionOpening {
  /** Time to wait for a listener at the address, and then for its response. */
  readonly connectTimeoutMs: number;
  /** Time that the load may take without progress. */
  readonly loadTimeoutMs: number;
  /** Aborted when no answer can come any more; its reason is a text that completes "no executor answers at ADDRESS: …". */
  readonly abandoned: AbortSignal;
  /** Why nothing has come so far, where that is known. */
  whySilent?(): string | undefined;
  /** Connection to the executor, where there is one already. */
  readonly client?: ExecutorServiceClient | undefined;
  onAnswer(): void;
  onProgress(doneBytes: number, totalBytes: number): void;
}

/** Between tries to connect to an executor that does not listen yet; the most that these waits grow to at an address of others. */
const RECONNECT_MS = 20;
const MOST_REMOTE_RECONNECT_MS = 200;
/** Interval of messages to an idle executor; well within any lease. */
const HEARTBEAT_MS = 500;
/** Time that an executor may take to finish its steps once nothing more is sent. */
const HAND_OVER_MS = 1000;

/** One epoch of one executor: a connection, a loaded model and the stream of steps. */
export class ExecutorSession {
  private stream: ClientDuplexStream<ExecuteRequest, ExecuteResponse> | undefined;
  private listener: SessionListener | undefined;
  private heartbeat: NodeJS.Timeout | undefined;
  /** Since when the oldest step has been under way. */
  readonly watch: StepWatch;

  private constructor(
    private readonly client: ExecutorServiceClient,
    readonly info: GetInfoResponse,
    readonly model: LoadedModel,
    readonly epoch: bigint,
    { deadline, clock }: SessionTerms,
  ) {
    this.watch = new StepWatch(deadline, clock);
  }

  /**
   * Connects and loads the model.
   *
   * @throws RocmForgeError the executor's own error, `CREDENTIAL_MISSING` and `CREDENTIAL_INVALID` among them, `EXECUTOR_UNAVAILABLE`, or `EXECUTOR_PROTOCOL` when it is not one of
   *         this release or not what was asked for
   */
  static async open(
    address: string,
    { channel, interceptors }: LinkCredentials,
    terms: SessionTerms,
    opening: SessionOpening,
  ): Promise<ExecutorSession> {
    const client = opening.client ?? connect(address, { channel, interceptors });
    // Nobody will ever answer: no need to try until the time is over. gRPC's own deadlines are of the wall clock, which
    // can be set; this timer's clock cannot.
    let asking: ClientUnaryCall | undefined;
    let isAnswered = false;
    const over = new AbortController();
    const cancel = (why: string): void => {
      over.abort(new RocmForgeError('EXECUTOR_UNAVAILABLE', `no executor answers at ${address}: ${why}`));
      asking?.cancel();
      client.close();
    };
    const late = setTimeout(() => {
      const why = opening.whySilent?.();
      cancel(`nothing for ${opening.connectTimeoutMs} ms${why === undefined ? '' : `: ${why}`}`);
    }, opening.connectTimeoutMs);
    opening.abandoned.addEventListener('abort', () => cancel(String(opening.abandoned.reason)), { once: true });
    try {
      await connected(client, over.signal);
      const info = await new Promise<GetInfoResponse>((resolve, reject) => {
        asking = client.getInfo({}, new Metadata(), (error, response) =>
          error ? reject(fromServiceError(error)) : resolve(response),
        );
      });
      clearTimeout(late);
      isAnswered = true;
      checkInfo(info, terms);
      opening.onAnswer();
      const model = await load(client, terms.load, opening);
      checkModel(model, terms);
      return new ExecutorSession(client, info, model, terms.load.epoch, terms);
    } catch (error) {
      clearTimeout(late);
      client.close();
      throw over.signal.aborted && !isAnswered ? over.signal.reason : error;
    }
  }

  /** The connection, of a session that was not started. The caller closes it. */
  takeClient(): ExecutorServiceClient {
    return this.client;
  }

  /** Opens the stream of steps. */
  start(listener: SessionListener): void {
    this.listener = listener;
    const stream = this.client.execute();
    this.stream = stream;
    stream.on('data', (response: ExecuteResponse) => {
      // The rest of an old epoch.
      if (response.epoch !== this.epoch) return;
      this.watch.end();
      try {
        this.listener?.result(response);
      } catch (error) {
        this.lose(error, true);
      }
    });
    stream.on('error', (error: ServiceError) => {
      const told = fromServiceError(error);
      this.lose(told, errorInfo(error) !== undefined && told.reason !== 'EXECUTOR_UNAVAILABLE');
    });
    stream.on('end', () =>
      this.lose(new RocmForgeError('EXECUTOR_UNAVAILABLE', 'the executor ended the stream'), false),
    );
    this.beat();
    this.heartbeat = setInterval(() => this.beat(), HEARTBEAT_MS);
  }

  submit(step: ExecuteRequest): void {
    this.watch.begin(step.slices.reduce((rows, slice) => rows + slice.count, 0));
    this.stream?.write(step);
  }

  /** Sends what is no step. */
  send(frame: ExecuteRequest): void {
    this.stream?.write(frame);
  }

  /** Declares the executor gone: it died, or is about to be killed. */
  lose(error: unknown, isAnswer: boolean): void {
    const { listener } = this;
    this.listener = undefined;
    this.close();
    listener?.lost(asRocmForgeError(error), isAnswer);
  }

  /** Ends the session without telling the listener. */
  close(): void {
    this.listener = undefined;
    clearInterval(this.heartbeat);
    this.stream?.cancel();
    this.stream = undefined;
    this.client.close();
  }

  /** Gives the executor up, so that another gateway need not wait for the lease. Resolves when it knows. */
  async handOver(): Promise<void> {
    const { stream } = this;
    this.listener = undefined;
    clearInterval(this.heartbeat);
    // Writing to a stream that has ended is an error.
    this.stream = undefined;
    if (stream !== undefined) {
      await new Promise<void>((resolve) => {
        setTimeout(resolve, HAND_OVER_MS).unref();
        stream.once('end', resolve);
        stream.once('error', () => resolve());
        stream.end();
      });
      stream.cancel();
    }
    this.close();
  }

  /** The executor is to know that its gateway lives: it would be another's for the asking otherwise. */
  private beat(): void {
    this.stream?.write(emptyFrame(0n, this.epoch));
  }

  /** Device statistics of the executor; undefined if it does not report them in time. */
  deviceStats(timeoutMs: number): Promise<GetDeviceStatsResponse | undefined> {
    return new Promise((resolve) => {
      const call = this.client.getDeviceStats({}, (error, stats) => resolve(error ? undefined : stats));
      setTimeout(() => call.cancel(), timeoutMs).unref();
    });
  }
}

function connect(address: string, { channel, interceptors }: LinkCredentials): ExecutorServiceClient {
  const isLocal = address.startsWith('unix:');
  return new ExecutorServiceClient(address, channel, {
    interceptors: [...interceptors],
    'grpc.max_receive_message_length': MAX_RESULT_BYTES,
    'grpc.max_send_message_length': -1,
    // A process takes a third of a second to listen. Waits that grow would grow past it: a recovery is not to wait for
    // the next try, and a try at a socket that is not there yet costs next to nothing.
    'grpc.initial_reconnect_backoff_ms': RECONNECT_MS,
    'grpc.max_reconnect_backoff_ms': isLocal ? RECONNECT_MS : MOST_REMOTE_RECONNECT_MS,
    // A stale idle connection to a socket path that a new process now owns must not be found again.
    'grpc.use_local_subchannel_pool': 1,
  });
}

/**
 * Resolves when a client has connected. Not its `waitForReady`, which has a closed channel connect again and again, and
 * answers nobody.
 *
 * @throws the reason of the signal, when it is aborted
 */
function connected(client: ExecutorServiceClient, over: AbortSignal): Promise<void> {
  const channel = client.getChannel();
  return new Promise((resolve, reject) => {
    over.addEventListener('abort', () => reject(over.reason), { once: true });
    const look = (): void => {
      if (over.aborted) return;
      const state = channel.getConnectivityState(true);
      if (state === connectivityState.READY) resolve();
      else channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, look);
    };
    look();
  });
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
