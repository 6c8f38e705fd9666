import type { Socket } from 'node:net';
import { Server } from '@grpc/grpc-js';
import { BoundedLog } from '../../../shared/bounded-log.js';
import { HEALTH_SERVICE, type Health } from '../../../shared/grpc/health.js';
import { bind, SERVER_OPTIONS } from '../../../shared/grpc/server.js';
import type { Logger } from '../../../shared/log.js';
import type { Trust } from '../../trust/trust.js';
import type { ConnectionOptions } from '../options.js';
import { CallGuard } from './call-guard.js';
import { ConnectionGuard } from './connection-guard.js';
import { FLOOD_LIMITS, FloodGuard } from './flood-guard.js';
import type { GrpcService } from './grpc-service.js';
import { HeaderWatch } from './header-watch.js';
import { addReflection, REFLECTION_BYTES } from './reflection.js';
import { StreamTurns } from './stream-turns.js';
import { trustInterceptor } from './trust-interceptor.js';

/** A server that serves clients. */
export interface PublicServer {
  /** The bound port; 0 for a socket file. */
  readonly port: number;
  readonly calls: CallGuard;
  readonly connections: ConnectionGuard;
  readonly floods: FloodGuard;
  readonly headers: HeaderWatch;
  /** TLS handshakes that failed so far. */
  failedHandshakes(): number;
  /** Takes no more connections and calls; resolves when those that are open have ended. */
  shutDown(): Promise<void>;
  /** Ends at once. */
  stop(): void;
}

/** Methods that generate, of whatever service. */
const GENERATION = /\/Generate(Stream)?$/;
const MIB = 1 << 20;
const MAX_OPEN_CALLS = 4096;
const MAX_UNFINISHED_BYTES = 32 * MIB;
const MAX_UNREAD_BYTES = 32 * MIB;
const KEEPALIVE_TIMEOUT_MS = 20_000;
/** Time that running calls may continue when their connection reaches its maximum age. */
const AGE_GRACE_MS = 3_600_000;

/**
 * Serves services, health and reflection.
 *
 * @param trust says who may call, how much, and over what
 * @throws RocmForgeError `ADDRESS_IN_USE`, `INVALID_OPTION`
 */
export async function openPublicServer(
  address: string,
  services: readonly GrpcService[],
  health: Health,
  trust: Trust,
  options: ConnectionOptions,
  log: Logger,
): Promise<PublicServer> {
  const requestBytes = new Map([...services.flatMap((service) => [...service.requestBytes]), ...REFLECTION_BYTES]);
  const generations = new Set([...requestBytes.keys()].filter((path) => GENERATION.test(path)));
  const server = new Server({
    ...SERVER_OPTIONS,
    'grpc.max_receive_message_length': Math.max(...requestBytes.values()),
    'grpc.max_concurrent_streams': options.maxStreamsPerConnection,
    'grpc.max_connection_idle_ms': options.maxConnectionIdleMs,
    'grpc.keepalive_time_ms': options.keepaliveMs,
    'grpc.keepalive_timeout_ms': KEEPALIVE_TIMEOUT_MS,
    // Not grpc-node.max_session_memory: in Node 20 a connection that has once reached it ends every later call, too.
    'grpc.max_connection_age_ms': options.maxConnectionAgeMs,
    'grpc.max_connection_age_grace_ms': AGE_GRACE_MS,
    interceptors: [trustInterceptor(trust, generations)],
  });
  for (const { definition, handlers } of services) server.addService(definition, handlers);
  health.addTo(server);
  addReflection(server, [...services.map(({ name }) => name), HEALTH_SERVICE]);
  const calls = new CallGuard(
    {
      maxOpenCalls: MAX_OPEN_CALLS,
      requestTimeoutMs: options.requestTimeoutMs ?? 30_000,
      maxUnfinishedBytes: MAX_UNFINISHED_BYTES,
      unreadTimeoutMs: options.unreadTimeoutMs ?? 60_000,
      maxUnreadBytes: MAX_UNREAD_BYTES,
      requestBytes,
    },
    log,
    (connection) => connections.violated(connection),
    trust.proxied,
    trust.rejections,
  );
  const { maxConnections, handshakeTimeoutMs = 10_000, files } = options;
  const connections = new ConnectionGuard({ maxConnections, handshakeTimeoutMs }, calls, files, trust.proxied);
  const floods = new FloodGuard(
    FLOOD_LIMITS,
    (connection) => connections.violated(connection),
    undefined,
    trust.proxied,
    new BoundedLog((fields, message) => log.warn(fields, message)),
  );
  const admit = (socket: Socket) => connections.admit(socket);
  const headers = new HeaderWatch((connection) => connections.violated(connection));
  const listener = await bind(server, address, { admit, tls: trust.tls, handshakeTimeoutMs });
  for (const guard of [connections, calls, floods, headers, new StreamTurns()]) guard.watch(listener.http2Server);
  return {
    port: listener.port,
    calls,
    connections,
    floods,
    headers,
    failedHandshakes: listener.failedHandshakes,
    shutDown: () => {
      listener.close();
      return new Promise((resolve) => server.tryShutdown(() => resolve()));
    },
    stop: () => {
      listener.close();
      server.forceShutdown();
    },
  };
}
