import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { RocmForgeError } from '../../../shared/errors.js';
import { listenOn } from '../../../shared/listen.js';
import type { ConnectionCalls } from '../grpc/call-guard.js';
import { ConnectionGuard } from '../grpc/connection-guard.js';
import type { ConnectionOptions } from '../grpc/public-server.js';
import { Bodies } from './bodies.js';
import { CONNECT_PREFIX, connectErrorForm, connectHandler } from './connect.js';
import type { HttpContext } from './context.js';
import { connectionOf, Exchange } from './exchange.js';
import type { ErrorForm } from './request.js';
import { DEFAULT_ERROR_FORM, routeOf, serve } from './routes.js';

/** A server that speaks HTTP/1.1 to clients. */
export interface HttpServer {
  /** The bound port; 0 for a socket file. */
  readonly port: number;
  readonly connections: ConnectionGuard;
  readonly bodies: Bodies;
  /** Requests whose answers are still on their way. */
  readonly unanswered: number;
  /** Takes no more connections and requests; resolves when those that are open have ended. */
  shutDown(): Promise<void>;
  /** Ends at once. */
  stop(): void;
}

const MIB = 1 << 20;
/** JSON is longer than what it stands for: escapes take six characters a letter, ids eight a token. */
const mostBodyBytes = (contextLength: number): number => Math.max(4 * MIB, 16 * contextLength);
const MOST_UNFINISHED_BYTES = 32 * MIB;
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than what balancers in front wait before they use a connection again (60 s by custom). */
const KEEP_ALIVE_MS = 65_000;
const MOST_HEADER_BYTES = 16 << 10;
const CHECK_INTERVAL_MS = 1000;

/**
 * Serves HTTP/1.1.
 *
 * @throws RocmForgeError `ADDRESS_IN_USE`, `INVALID_OPTION`
 */
export async function openHttpServer(
  address: string,
  context: HttpContext,
  options: ConnectionOptions,
): Promise<HttpServer> {
  const { maxConnections = 1024, handshakeTimeoutMs = HEADERS_TIMEOUT_MS } = options;
  const requests = new OpenRequests();
  const connections = new ConnectionGuard({ maxConnections, handshakeTimeoutMs }, requests);
  const most = mostBodyBytes(context.facts.contextLength);
  const bodies = new Bodies({ most, mostUnfinished: MOST_UNFINISHED_BYTES });
  const connect = connectHandler(context.inference);
  const server = createServer(
    {
      headersTimeout: handshakeTimeoutMs,
      requestTimeout: options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CHECK_INTERVAL_MS,
      maxHeaderSize: MOST_HEADER_BYTES,
      noDelay: true,
    },
    (request, response) => answer(request, response),
  );
  const exchangeOf = (request: IncomingMessage, response: ServerResponse, errorForm: ErrorForm): Exchange =>
    new Exchange(request, response, { bodies, trust: context.trust, errorForm });
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    // Nobody's client sends a request before the answer to the last one, and a packet holds thousands of them.
    if (!requests.open(request, response)) {
      request.socket.destroy();
      return;
    }
    connections.heard(connectionOf(request));
    response.on('error', () => undefined);
    const path = (request.url ?? '').replace(/\?.*$/s, '');
    if (path.startsWith(CONNECT_PREFIX)) {
      void connect(exchangeOf(request, response, connectErrorForm));
      return;
    }
    const found = routeOf(request.method ?? '', path);
    if (found instanceof RocmForgeError) {
      exchangeOf(request, response, DEFAULT_ERROR_FORM).fail(found);
      return;
    }
    const { route, matched } = found;
    void serve(route, matched, exchangeOf(request, response, route.errorForm), context);
  };
  refuseWhatIsNone(server);
  const sockets = new Set<Socket>();
  const { tls } = context.trust;
  const admit = (socket: Socket): boolean => connections.admit(socket);
  const listener = await listenOn(address, { protocol: 'http/1.1', admit, tls, handshakeTimeoutMs }, (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    server.emit('connection', socket);
  });
  return {
    port: listener.port,
    connections,
    bodies,
    get unanswered() {
      return requests.size;
    },
    shutDown: async () => {
      listener.close();
      server.closeIdleConnections();
      while (requests.size > 0) await new Promise((resolve) => setTimeout(resolve, 20));
    },
    stop: () => {
      listener.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** What is no HTTP is told so, where its sender still listens. */
function refuseWhatIsNone(server: Server): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const status = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? '408 Request Timeout' : '400 Bad Request';
    // After an answer has begun, another would be part of it.
    if (socket.writable && (socket as Socket).bytesWritten === 0)
      socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    else socket.destroy();
  });
}

/** Requests that are open, by connection. */
class OpenRequests {
  private readonly ofConnection = new Map<string, { started: number; working: number }>();
  size = 0;

  callsOf(connection: string): ConnectionCalls {
    return this.ofConnection.get(connection) ?? { started: 0, working: 0 };
  }

  forgetConnection(connection: string): void {
    this.ofConnection.delete(connection);
  }

  /** Whether the connection has no other request open. */
  open(request: IncomingMessage, response: ServerResponse): boolean {
    const connection = connectionOf(request);
    const calls = this.ofConnection.get(connection) ?? { started: 0, working: 0 };
    if (calls.working > 0) return false;
    calls.started += 1;
    calls.working += 1;
    this.size += 1;
    this.ofConnection.set(connection, calls);
    response.once('close', () => {
      this.size -= 1;
      calls.working -= 1;
    });
    return true;
  }
}
