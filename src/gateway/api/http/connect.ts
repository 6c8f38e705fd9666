import type { IncomingHttpHeaders } from 'node:http';
import {
  create,
  createFileRegistry,
  type DescMethod,
  fromBinary,
  type Message,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
} from '@connectrpc/connect';
import type { Compression, UniversalServerResponse } from '@connectrpc/connect/protocol';
import { compressionBrotli, compressionGzip } from '@connectrpc/connect-node';
import { type ErrorReason, RocmForgeError } from '../../../shared/errors.js';
import { Status } from '../../../shared/generated/google/rpc/status.js';
import {
  DetokenizeRequest,
  DetokenizeResponse,
  EmbedRequest,
  EmbedResponse,
  GenerateRequest,
  GenerateResponse,
  GenerateStreamRequest,
  GenerateStreamResponse,
  GetModelRequest,
  GetModelResponse,
  ListModelsRequest,
  ListModelsResponse,
  TokenizeRequest,
  TokenizeResponse,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import { readDescriptorSet } from '../../../shared/grpc/descriptors.js';
import { toStatus } from '../../../shared/grpc/status.js';
import { EncodedResponse } from '../../../shared/grpc/strict.js';
import { callSignal } from '../call-signal.js';
import { INFERENCE_SERVICE } from '../grpc/inference-service.js';
import type { WaitingCall } from '../inference.js';
import type { Models } from '../models.js';
import { errorCompleter } from './connect-errors.js';
import { checkBinary, jsonForLibrary, type MessageHeaders } from './connect-messages.js';
import type { Exchange } from './exchange.js';
import { ResponseQueue } from './response-queue.js';

/**
 * Bytes of a request over Connect or gRPC-Web: it is read as a whole where everything is served, and JSON of this size
 * takes some milliseconds. The other servers take more.
 */
export const MOST_CONNECT_BYTES = 256 << 10;

/** Codec of messages. */
interface Codec<Request, Response> {
  readonly request: { decode(bytes: Uint8Array): Request };
  readonly response: { encode(message: Response): { finish(): Uint8Array } };
}

const exchangeKey = createContextKey<Exchange | undefined>(undefined);

/** Answers one request to a path of the public service. */
export type ConnectHandler = (exchange: Exchange, path: string) => Promise<void>;

/** Paths under which Connect's methods are. */
export const CONNECT_PREFIX = `/${INFERENCE_SERVICE}/`;

/**
 * The public service as JSON, Connect and gRPC-Web (https://connectrpc.com/docs/protocol), by the descriptors that
 * reflection serves: the same messages, methods and errors as over gRPC.
 */
export function connectHandler(models: Models): ConnectHandler {
  const files = readDescriptorSet().map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
  const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: files }));
  const service = registry.getService(INFERENCE_SERVICE);
  if (service === undefined) throw new RocmForgeError('INTERNAL', `no descriptor of ${INFERENCE_SERVICE} was built`);

  /** The error with its details, in the protocol's own form. */
  const connectError = (thrown: unknown): ConnectError => {
    if (thrown instanceof ConnectError) return thrown;
    const { code, details = '', metadata } = toStatus(thrown);
    const [packed] = metadata?.get('grpc-status-details-bin') ?? [];
    // Codes are gRPC's.
    const error = new ConnectError(details, code as number as Code);
    for (const { typeUrl, value } of packed instanceof Buffer ? Status.decode(packed).details : []) {
      const desc = registry.getMessage(typeUrl.slice(typeUrl.lastIndexOf('/') + 1));
      if (desc !== undefined) error.details.push({ desc, value: fromBinary(desc, value) });
    }
    return error;
  };
  /** {@link connectError}, counted. */
  const refusal = (thrown: unknown, context: HandlerContext): ConnectError => {
    if (!(thrown instanceof ConnectError)) context.values.get(exchangeKey)?.refused(thrown);
    return connectError(thrown);
  };
  const clientOf = (context: HandlerContext): WaitingCall => {
    const exchange = context.values.get(exchangeKey);
    if (exchange === undefined) throw new RocmForgeError('INTERNAL', 'a call without its exchange');
    const left = context.timeoutMs();
    if (left === undefined) return exchange.client;
    // Nothing else ends a call at its deadline: the library only tells of it.
    const signal = callSignal(AbortSignal.any([exchange.client.signal, context.signal]));
    return { ...exchange.client, signal, deadline: performance.now() + left };
  };
  /** @throws ConnectError when the answer ended because the time was over */
  const checkInTime = (context: HandlerContext): void => {
    const left = context.timeoutMs();
    if (left !== undefined && left <= 0)
      throw new ConnectError('the deadline has passed; ask for less, or send a later one', Code.DeadlineExceeded);
  };
  const method = (name: string): DescMethod => {
    const found = service.methods.find((one) => one.name === name);
    if (found === undefined) throw new RocmForgeError('INTERNAL', `no descriptor of ${name} was built`);
    return found;
  };
  const decoded = <Request>(desc: DescMethod, codec: Codec<Request, unknown>['request'], request: Message): Request =>
    codec.decode(toBinary(desc.input, request as MessageShape<typeof desc.input>));

  const routes = (router: ConnectRouter): void => {
    const unary = <Request, Response>(
      name: string,
      codec: Codec<Request, Response>,
      answer: (request: Request, client: WaitingCall) => Promise<Response | EncodedResponse | undefined>,
    ): void => {
      const desc = method(name) as DescMethod & { readonly methodKind: 'unary' };
      router.rpc(desc, async (request, context) => {
        try {
          const response = await answer(decoded(desc, codec.request, request), clientOf(context));
          if (response === undefined) {
            checkInTime(context);
            return create(desc.output);
          }
          const bytes =
            response instanceof EncodedResponse ? response.bytes : codec.response.encode(response as Response).finish();
          return fromBinary(desc.output, bytes);
        } catch (error) {
          throw refusal(error, context);
        }
      });
    };
    unary('Generate', { request: GenerateRequest, response: GenerateResponse }, async (request, client) => {
      const { inference } = await models.ofMessage(request, client);
      return inference.generate(request, client);
    });
    unary('Tokenize', { request: TokenizeRequest, response: TokenizeResponse }, async (request, client) => {
      const { inference } = await models.ofMessage(request, client);
      return inference.tokenize(request, client);
    });
    unary('Detokenize', { request: DetokenizeRequest, response: DetokenizeResponse }, async (request, client) => {
      const { inference } = await models.ofMessage(request, client);
      return inference.detokenize(request, client);
    });
    unary('Embed', { request: EmbedRequest, response: EmbedResponse }, async (request, client) => {
      const { embeddings } = await models.ofMessage(request, client);
      return embeddings.embed(request, client);
    });
    unary('ListModels', { request: ListModelsRequest, response: ListModelsResponse }, async () => models.listModels());
    unary('GetModel', { request: GetModelRequest, response: GetModelResponse }, async (request) =>
      models.getModel(request),
    );
    const desc = method('GenerateStream') as DescMethod & { readonly methodKind: 'server_streaming' };
    router.rpc(desc, async function* (request, context) {
      const client = clientOf(context);
      const queue = new ResponseQueue(client.signal);
      try {
        const message = decoded(desc, GenerateStreamRequest, request);
        const { inference } = await models.ofMessage(message, client);
        await inference.generateStream(message, client, queue);
        for await (const response of queue) {
          yield fromBinary(desc.output, GenerateStreamResponse.encode(response).finish());
        }
        checkInTime(context);
      } catch (error) {
        throw refusal(error, context);
      }
    });
  };
  return serveRouter(routes, connectError);
}

const GENERATIONS: ReadonlySet<string> = new Set(
  ['Generate', 'GenerateStream', 'Embed'].map((name) => CONNECT_PREFIX + name),
);

/** Envelope of a message in a stream. */
const ENVELOPE_BYTES = 5;

/**
 * Calls are read as a whole, like all requests here, before the library sees them. What is wrong with one by then is what
 * its body throws: so each protocol tells it in its own form.
 */
function serveRouter(
  routes: (router: ConnectRouter) => void,
  connectError: (thrown: unknown) => ConnectError,
): ConnectHandler {
  // The place where the library decodes bytes of JSON, whatever they were packed in.
  const textDecoder = {
    decode: (bytes: Uint8Array): string => {
      try {
        return jsonForLibrary(bytes);
      } catch (error) {
        throw connectError(error);
      }
    },
  };
  // The library reports bytes that do not decompress as a fault of the server.
  const refusing = (compression: Compression): Compression => ({
    ...compression,
    decompress: (bytes, most) =>
      compression.decompress(bytes, most).catch((error: unknown) => {
        if (!(error instanceof ConnectError) || error.code !== Code.Internal) throw error;
        throw connectError(new RocmForgeError('MALFORMED_MESSAGE', `the request is not ${compression.name}`));
      }),
  });
  // A name that is not known is a mistake, and not to be passed over.
  const jsonOptions = { ignoreUnknownFields: false, textDecoder };
  const router = createConnectRouter({
    // gRPC has a port of its own, for HTTP/2.
    grpc: false,
    readMaxBytes: MOST_CONNECT_BYTES,
    acceptCompression: [compressionGzip, compressionBrotli].map(refusing),
    jsonOptions,
  });
  routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
  return async (exchange, path) => {
    const { request, signal } = exchange;
    const handler = handlers.get(path);
    if (handler === undefined) {
      exchange.fail(new RocmForgeError('PATH_NOT_FOUND', `nothing is served under "${path}"`));
      return;
    }
    const whole = exchange
      .identify(GENERATIONS.has(path))
      .then(() => exchange.bytes(MOST_CONNECT_BYTES + ENVELOPE_BYTES))
      .then((bytes) => {
        checkBinary(bytes, messageHeaders(request.headers), handler.method.input, MOST_CONNECT_BYTES);
        return bytes;
      })
      .catch((error: unknown) => {
        exchange.refused(error);
        return connectError(error);
      });
    const read = await whole;
    async function* body(): AsyncGenerator<Uint8Array> {
      if (read instanceof ConnectError) throw read;
      yield read;
    }
    try {
      await answerWith(
        exchange,
        await handler({
          httpVersion: request.httpVersion,
          method: request.method ?? '',
          url: `http://localhost${path}`,
          header: new Headers(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
          body: body(),
          signal,
          contextValues: createContextValues().set(exchangeKey, exchange),
        }),
        read instanceof ConnectError,
      );
    } catch (error) {
      if (!signal.aborted) exchange.fail(error);
    }
  };
}

function messageHeaders(headers: IncomingHttpHeaders): MessageHeaders {
  const names = ['content-encoding', 'connect-content-encoding', 'grpc-encoding'];
  const encodings = names.map((name) => headers[name]).map((value) => (typeof value === 'string' ? value : undefined));
  return { contentType: headers['content-type'] ?? '', encodings };
}

/** Requests that the library refuses by their headers, without a word, by status. */
const HEADER_REFUSALS: ReadonlyMap<number, readonly [reason: ErrorReason, message: string]> = new Map([
  [405, ['METHOD_NOT_ALLOWED', 'methods of the service are called with POST']],
  [415, ['CONTENT_TYPE_UNSUPPORTED', 'the content type is not one of this method; send application/json']],
]);

const NOTHING = (async function* (): AsyncGenerator<Uint8Array> {})();

/** Writes an answer as fast as it is read. @param isShort whether it is certainly an error, and so one piece */
async function answerWith(
  exchange: Exchange,
  { status, header, body = NOTHING, trailer }: UniversalServerResponse,
  isShort: boolean,
): Promise<void> {
  const { response } = exchange;
  const type = header?.get('content-type') ?? '';
  const complete = errorCompleter({ status, type }, (error) => {
    // A call whose deadline passes has begun, and ends as a request of its own.
    if (!exchange.isRefused && error.reason !== 'DEADLINE_EXCEEDED') exchange.refused(error);
  });
  for (const [name, value] of [...(header ?? []), ...(trailer ?? [])]) response.setHeader(name, value);
  const refusal = HEADER_REFUSALS.get(status);
  if (refusal !== undefined) {
    exchange.fail(new RocmForgeError(...refusal));
    return;
  }
  if (isShort || status !== HTTP_OK) {
    const pieces: Uint8Array[] = [];
    for await (const piece of body) pieces.push(complete(piece));
    exchange.send(Buffer.concat(pieces), type, status);
    return;
  }
  response.statusCode = status;
  for await (const piece of body) {
    if (response.destroyed) return;
    if (!response.write(complete(piece))) await drained(exchange);
  }
  response.end();
}

const HTTP_OK = 200;

function drained({ response, signal }: Exchange): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      response.off('drain', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    response.once('drain', done);
    signal.addEventListener('abort', done);
  });
}
