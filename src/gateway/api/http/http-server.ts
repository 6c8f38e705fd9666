import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { BoundedLog } from '../../../shared/bounded-log.js';
import { RocmForgeError } from '../../../shared/errors.js';
import { type Listener, listenOn } from '../../../shared/listen.js';
import { ConnectionGuard, nameOf } from '../grpc/connection-guard.js';
import type { HttpOptions } from '../options.js';
import { Bodies } from './bodies.js';
import { headerError, onClientError } from './client-errors.js';
import { CONNECT_PREFIX, connectHandler } from './connect.js';
import { connectErrorForm } from './connect-errors.js';
import type { HttpContext } from './context.js';
import { corsOf } from './cors.js';
import { connectionOf, Exchange } from './exchange.js';
import { hostCheck } from './hosts.js';
import { OpenRequests } from './open-requests.js';
import type { ErrorForm } from './request.js';
import { requestIdOf } from './request-id.js';
import { type Found, methodsAt, routeOf, serve, unroutedErrorForm } from './routes.js';
import { UnreadResponses } from './unread-responses.js';

/** A server that speaks HTTP/1.1 to clients. */
export interface HttpServer {
  /** The bound port of the first address; 0 for a socket file. */
  readonly port: number;
  /** Those of all addresses, in their order. */
  readonly ports: readonly number[];
  readonly connections: ConnectionGuard;
  readonly bodies: Bodies;
  readonly unread: UnreadResponses;
  /** Requests that arrived completely and whose responses have not ended. */
  readonly unanswered: number;
  /** TLS handshakes that failed so far. */
  failedHandshakes(): number;
  /** Responses tell clients to close the connection (`connection: close`). */
  announceEnd(): void;
  /** Accepts no more connections; resolves when open requests have ended. */
  shutDown(): Promise<void>;
  /** Ends at once. */
  stop(): void;
}

const MIB = 1 << 20;
/** JSON is longer than its content: escapes take six characters per letter, ids eight per token. */
const maxBodyBytes = (contextLength: number): number => Math.max(4 * MIB, 16 * contextLength);
const MAX_PENDING_BYTES = 32 * MIB;
const MAX_UNREAD_BYTES = 32 * MIB;
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const UNREAD_TIMEOUT_MS = 60_000;
/** Longer than the idle timeout of load balancers (60 s by convention), so that they never reuse a connection that is closing. */
const KEEP_ALIVE_MS = 65_000;
const MAX_HEADER_BYTES = 16 << 10;
const CHECK_INTERVAL_MS = 1000;
/** Time between the end of the time for headers and the response to them: the next check, and some more. */
const GRACE_MS = 5 * CHECK_INTERVAL_MS;

/**
 * Serves HTTP/1.1.
 *
 * @param addresses at least one; if listening fails on one, none is listened on
 * @throws RocmForgeError `ADDRESS_IN_USE`, `INVALID_OPTION`
 */
export async function openHttpServer(
  addresses: readonly string[],
  context: HttpContext,
  options: HttpOptions,
): Promise<HttpServer> {
  const { maxConnections, handshakeTimeoutMs = HEADERS_TIMEOUT_MS, files } = options;
  const requestTimeout = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
  const { trust } = context;
  const requests = new OpenRequests();
  const headersTimeout = Math.min(handshakeTimeoutMs, requestTimeout);
  // The server answers late headers itself. The guard ends what is still silent, after the handshake of TLS and that response.
  const silenceMs = (trust.tls === undefined ? 0 : handshakeTimeoutMs) + headersTimeout + GRACE_MS;
  const guarded = { maxConnections, handshakeTimeoutMs: silenceMs };
  const connections = new ConnectionGuard(guarded, requests, files, trust.proxied);
  const maxBytes = maxBodyBytes(Math.max(...context.models.all.map(({ served }) => served.contextLength)));
  const bodies = new Bodies({ maxBytes, maxPendingBytes: MAX_PENDING_BYTES });
  const unread = new UnreadResponses(
    { timeoutMs: options.unreadTimeoutMs ?? UNREAD_TIMEOUT_MS, maxBytes: MAX_UNREAD_BYTES },
    new BoundedLog((fields, message) => context.log.warn(fields, message)),
  );
  const hosts = { allowed: options.allowedHosts ?? [], demandsToken: trust.demandsBearer };
  /** Host check of the address that accepted the connection. */
  const hostChecks = new WeakMap<Socket, ReturnType<typeof hostCheck>>();
  const responseCors = corsOf(options.corsOrigins, trust.demandsBearer);
  const connect = connectHandler(context.models);
  let isEnding = false;
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    // No pipelining: clients wait for the response before the next request, and one packet can hold thousands of requests.
    if (requests.isBusy(request)) {
      if (!request.socket.destroyed) connections.violated(connectionOf(request));
      request.socket.destroy();
      return;
    }
    response.on('error', () => undefined);
    if (isEnding) response.setHeader('connection', 'close');
    const id = requestIdOf(request.headers['x-request-id']);
    // Anthropic's clients read the second.
    for (const header of ['x-request-id', 'request-id']) response.setHeader(header, id);
    const path = pathOf(request.url ?? '');
    const isConnect = path.startsWith(CONNECT_PREFIX);
    const found = isConnect ? undefined : routeOf(request.method ?? '', path);
    const client = trust.proxied.clientOf(connectionOf(request), request.headers);
    const exchange = new Exchange(request, response, {
      id,
      bodies,
      trust,
      errorForm: errorFormOf(found, path),
      onRefused: (error) => {
        context.onRefused(error.reason);
        trust.rejections.note('http', exchange.sender, error, { httpRequestId: id });
      },
      onViolation: () => {
        if (client === undefined) connections.violated(connectionOf(request));
        else trust.proxied.violated(client);
      },
    });
    requests.add(exchange);
    unread.watch(request, response, client);
    connections.heard(connectionOf(request));
    if (client !== undefined) {
      response.once('close', () => {
        if (!response.headersSent) trust.proxied.cancelled(client);
      });
      const refusal = trust.proxied.refusalOf(client);
      if (refusal !== undefined) {
        exchange.fail(refusal);
        return;
      }
    }
    const refusal = headerError(request);
    if (refusal !== undefined) {
      response.setHeader('connection', 'close');
      exchange.fail(refusal);
      return;
    }
    if (responseCors(request, response)) return;
    try {
      hostChecks.get(request.socket)?.(request.headers.host);
      if (found instanceof RocmForgeError) throw found;
    } catch (error) {
      const { reason } = error as RocmForgeError;
      if (reason === 'METHOD_NOT_ALLOWED') response.setHeader('allow', methodsAt(path).join(', '));
      exchange.fail(error);
      return;
    }
    if (found === undefined) void connect(exchange, path);
    else void serve(found, exchange, context);
  };
  const server = createServer(
    {
      headersTimeout,
      requestTimeout,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      // Checked by this server, whose error has a body.
      requireHostHeader: false,
      noDelay: true,
    },
    answer,
  );
  server.on('checkContinue', answer);
  server.on('checkExpectation', answer);
  onClientError(server, {
    requests,
    maxHeaderBytes: MAX_HEADER_BYTES,
    onLate: () => {
      bodies.counters.slowSenders += 1;
    },
    onRefused: (error, socket, id) => {
      context.onRefused(error.reason);
      trust.rejections.note('http', trust.proxied.peerOf(nameOf(socket), {}), error, { httpRequestId: id });
    },
  });
  // The server itself does not listen, and without this event it would not check its timeouts.
  server.emit('listening');
  const sockets = new Set<Socket>();
  const admit = (socket: Socket): boolean => connections.admit(socket);
  const { tls } = trust;
  const listeners: Listener[] = [];
  const close = (): void => {
    for (const listener of listeners) listener.close();
  };
  try {
    for (const address of addresses) {
      const checkHost = hostCheck(address, hosts);
      const listenOptions = { protocol: 'http/1.1', admit, tls, handshakeTimeoutMs } as const;
      const listener = await listenOn(address, listenOptions, (socket) => {
        hostChecks.set(socket, checkHost);
        sockets.add(socket);
        socket.once('close', () => sockets.delete(socket));
        server.emit('connection', socket);
      });
      listeners.push(listener);
    }
  } catch (error) {
    close();
    throw error;
  }
  const ports = listeners.map(({ port }) => port);
  return {
    port: ports[0] as number,
    ports,
    connections,
    bodies,
    unread,
    get unanswered() {
      return requests.unanswered;
    },
    failedHandshakes: () => listeners.reduce((sum, listener) => sum + listener.failedHandshakes(), 0),
    announceEnd: () => {
      isEnding = true;
      context.streams.endUnread();
    },
    shutDown: async () => {
      close();
      server.closeIdleConnections();
      while (requests.unanswered > 0) await new Promise((resolve) => setTimeout(resolve, 20));
    },
    stop: () => {
      close();
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/**
 * The path of a request's target, which proxies write with scheme and host (RFC 9112, 3.2.2), without its query, and without
 * the slashes that a base URL with one at its end makes.
 */
function pathOf(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?]*/i, '').replace(/\?.*$/s, '');
  const single = path.replace(/\/{2,}/g, '/');
  return (single.endsWith('/') ? single.slice(0, -1) : single) || '/';
}

function errorFormOf(found: Found | RocmForgeError | undefined, path: string): ErrorForm {
  if (found === undefined) return connectErrorForm;
  return found instanceof RocmForgeError ? unroutedErrorForm(path) : found.route.errorForm;
}
