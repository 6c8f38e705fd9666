import {
  type ChannelCredentials,
  type ClientUnaryCall,
  type CallOptions as GrpcCallOptions,
  credentials as grpcCredentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { illegalPosition } from '../shared/bearer-token.js';
import {
  type DeepPartial,
  DetokenizeRequest,
  type DetokenizeResponse,
  EmbedRequest,
  type EmbedResponse,
  GenerateRequest,
  type GenerateResponse,
  GenerateStreamRequest,
  type GenerateStreamResponse,
  GetModelRequest,
  type GetModelResponse,
  InferenceServiceClient,
  type ListModelsResponse,
  TokenizeRequest,
  type TokenizeResponse,
} from '../shared/generated/rocmforge/v1/inference.js';
import { clientError, RocmForgeClientError } from './error.js';
import { completeMessage } from './request.js';

/** Address and credentials of a gateway. */
export interface RocmForgeClientOptions {
  /** Credentials of `@grpc/grpc-js`; absent: a connection that is not encrypted. */
  readonly credentials?: ChannelCredentials;
  /** Sent with each call as `authorization: Bearer`; readable by whoever sees a connection that is not encrypted. */
  readonly token?: string;
}

/** Deadline of a call. */
export interface CallOptions {
  /** Cancels the call when it is aborted. */
  readonly signal?: AbortSignal;
  /** After so many milliseconds the call ends with `DEADLINE_EXCEEDED`, here and at the gateway. */
  readonly deadlineMs?: number;
}

/** A chunk or the end of a completion, with the request's id. */
export type GenerateStreamEvent = { readonly requestId: string } & NonNullable<GenerateStreamResponse['event']>;

/**
 * A client of a gateway. Requests may leave out what has a default. Every method throws {@link RocmForgeClientError}.
 *
 * ```ts
 * const client = new RocmForgeClient('localhost:50051');
 * for await (const event of client.generateStream({ input: { $case: 'text', value: { text: 'Once upon a time' } } })) {
 *   if (event.$case === 'chunk') process.stdout.write(event.value.text);
 * }
 * client.close();
 * ```
 */
export class RocmForgeClient {
  private readonly stub: InferenceServiceClient;
  private readonly metadata = new Metadata();

  /**
   * @param address `HOST:PORT` or `unix:PATH`
   * @throws RocmForgeClientError `INVALID_ARGUMENT`, reason `INVALID_OPTION`, for a token that no header can hold
   */
  constructor(address: string, { credentials = grpcCredentials.createInsecure(), token }: RocmForgeClientOptions = {}) {
    const position = illegalPosition(token ?? '');
    if (position !== undefined) {
      // The error of the gRPC library would quote the token.
      throw new RocmForgeClientError(
        'INVALID_ARGUMENT',
        `token has a character that no token has (position ${position}); give one line of visible ASCII characters`,
        { reason: 'INVALID_OPTION' },
      );
    }
    // The gateway bounds what it answers, above what this library takes by default.
    this.stub = new InferenceServiceClient(address, credentials, { 'grpc.max_receive_message_length': -1 });
    if (token !== undefined) this.metadata.set('authorization', `Bearer ${token}`);
  }

  /**
   * Runs a generation and yields tokens as they are sampled, then the end of each of its completions. The call begins when the
   * first event is asked for; leaving the loop cancels it, and with it the generation.
   */
  async *generateStream(
    request: DeepPartial<GenerateStreamRequest>,
    options: CallOptions = {},
  ): AsyncGenerator<GenerateStreamEvent, void, undefined> {
    const message = completeMessage(GenerateStreamRequest, request);
    const call = this.stub.generateStream(message, this.metadata, grpcOptions(options));
    // The end of a call that was left has no receiver; the loop sees all others by itself.
    call.on('error', () => undefined);
    const forget = cancelWith(call, options.signal);
    try {
      for await (const { requestId, event } of call as AsyncIterable<GenerateStreamResponse>) {
        if (event !== undefined) yield { requestId, ...event };
      }
    } catch (error) {
      throw isServiceError(error) ? clientError(error) : error;
    } finally {
      forget();
      call.cancel();
    }
  }

  /** Runs a generation to its end. */
  generate(request: DeepPartial<GenerateRequest>, options: CallOptions = {}): Promise<GenerateResponse> {
    return answer(options, (grpc, done) =>
      this.stub.generate(completeMessage(GenerateRequest, request), this.metadata, grpc, done),
    );
  }

  /** Turns text into token ids exactly as a generation would. */
  tokenize(request: DeepPartial<TokenizeRequest>, options: CallOptions = {}): Promise<TokenizeResponse> {
    return answer(options, (grpc, done) =>
      this.stub.tokenize(completeMessage(TokenizeRequest, request), this.metadata, grpc, done),
    );
  }

  /** Turns token ids into text. */
  detokenize(request: DeepPartial<DetokenizeRequest>, options: CallOptions = {}): Promise<DetokenizeResponse> {
    return answer(options, (grpc, done) =>
      this.stub.detokenize(completeMessage(DetokenizeRequest, request), this.metadata, grpc, done),
    );
  }

  /** Computes embeddings of texts, one an input. */
  embed(request: DeepPartial<EmbedRequest>, options: CallOptions = {}): Promise<EmbedResponse> {
    return answer(options, (grpc, done) =>
      this.stub.embed(completeMessage(EmbedRequest, request), this.metadata, grpc, done),
    );
  }

  /** The models that are served. */
  listModels(options: CallOptions = {}): Promise<ListModelsResponse> {
    return answer(options, (grpc, done) => this.stub.listModels({}, this.metadata, grpc, done));
  }

  /** One model; without a request, the only one that is served. */
  getModel(request: DeepPartial<GetModelRequest> = {}, options: CallOptions = {}): Promise<GetModelResponse> {
    return answer(options, (grpc, done) =>
      this.stub.getModel(completeMessage(GetModelRequest, request), this.metadata, grpc, done),
    );
  }

  /** Takes no more calls; the connection ends when those that are open have. */
  close(): void {
    this.stub.close();
  }
}

/** The answer of a call that has one. */
function answer<Response>(
  options: CallOptions,
  start: (grpc: GrpcCallOptions, done: (error: ServiceError | null, response: Response) => void) => ClientUnaryCall,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const call = start(grpcOptions(options), (error, response) => {
      forget();
      if (error) reject(clientError(error));
      else resolve(response);
    });
    const forget = cancelWith(call, options.signal);
  });
}

/** @throws RocmForgeClientError `INVALID_ARGUMENT`, reason `INVALID_OPTION` */
function grpcOptions({ deadlineMs }: CallOptions): GrpcCallOptions {
  if (deadlineMs === undefined) return {};
  if (deadlineMs > 0 && Number.isFinite(deadlineMs)) return { deadline: Date.now() + deadlineMs };
  throw new RocmForgeClientError(
    'INVALID_ARGUMENT',
    `deadlineMs is ${deadlineMs}; give milliseconds above 0, or none`,
    {
      reason: 'INVALID_OPTION',
    },
  );
}

/** Cancels the call when the signal is aborted. @returns to be called when the call has ended */
function cancelWith(call: { cancel(): void }, signal: AbortSignal | undefined): () => void {
  const cancel = (): void => call.cancel();
  if (signal?.aborted) cancel();
  else signal?.addEventListener('abort', cancel, { once: true });
  return () => signal?.removeEventListener('abort', cancel);
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'metadata' in error && 'details' in error;
}
