import { lookup } from 'node:dns/promises';
import { existsSync, lstatSync, unlinkSync } from 'node:fs';
import type { Http2Server } from 'node:http2';
import { connect, createServer, type Server as NetServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls';
import { logVerbosity, type Server, ServerCredentials, setLogVerbosity } from '@grpc/grpc-js';
import { RocmForgeError } from '../errors.js';
import { TLS_MIN_VERSION, type TlsMaterial } from '../tls.js';
import { MAX_MESSAGE_BYTES } from './message-bytes.js';

// grpc-js writes to stderr by itself; what it has to say reaches us as errors.
if (process.env.GRPC_VERBOSITY === undefined) setLogVerbosity(logVerbosity.NONE);

export const SERVER_OPTIONS = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': -1,
} as const;

/** The longest path of a socket file: `sun_path` of Linux without its closing zero. */
const MAX_SOCKET_PATH_BYTES = 107;
const MAX_PORT = 65_535;

/** Where a server listens. */
export interface Listener {
  /** The bound port; 0 for a socket file. */
  readonly port: number;
  /** What answers on connections; for those who watch them. */
  readonly http2Server: Http2Server;
  /** TLS handshakes that failed so far. */
  readonly failedHandshakes: () => number;
  /** Takes no more connections; those that are open stay. */
  close(): void;
}

/** How connections are taken. */
export interface BindOptions {
  /** Whether a connection is taken, asked before anything is read of it; it is closed otherwise. */
  readonly admit?: (socket: Socket) => boolean;
  /** Speak TLS, and only that. */
  readonly tls?: TlsMaterial | undefined;
  /** How long a TLS handshake may take; default 10 s. */
  readonly handshakeTimeoutMs?: number;
}

const HANDSHAKE_TIMEOUT_MS = 10_000;

let unixConnections = 0;

/**
 * Binds a server to `host:port` or `unix:path`. A socket file that nobody listens on is a crashed process's and is
 * removed first; any other file stays. A connection over a socket file has no remote address: calls over it are told
 * `unix:N` for their peer, another one for each connection.
 *
 * @throws RocmForgeError `ADDRESS_IN_USE`; `INVALID_OPTION` for what is no address, and for TLS on a socket file
 */
export async function bind(server: Server, address: string, options: BindOptions = {}): Promise<Listener> {
  const { admit = () => true, tls, handshakeTimeoutMs = HANDSHAKE_TIMEOUT_MS } = options;
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const http2Server = http2ServerOf(server);
  const isUnix = address.startsWith('unix:');
  if (isUnix && tls !== undefined) {
    throw new RocmForgeError('INVALID_OPTION', `TLS is for HOST:PORT; ${address} is guarded by its file's permissions`);
  }
  let failedHandshakes = 0;
  const tlsServer = tls && tlsServerOf(tls, handshakeTimeoutMs, (socket) => injector.injectConnection(socket));
  tlsServer?.on('tlsClientError', (_error, socket) => {
    failedHandshakes += 1;
    socket.destroy();
  });
  const take = (socket: Socket): void => {
    if (isUnix) Object.defineProperty(socket, 'remoteAddress', { value: `unix:${++unixConnections}` });
    if (!admit(socket)) socket.destroy();
    else if (tlsServer) tlsServer.emit('connection', socket);
    else injector.injectConnection(socket);
  };
  const servers: NetServer[] = [];
  try {
    if (isUnix) {
      const path = address.slice('unix:'.length);
      await removeDeadSocket(path);
      servers.push(await listen({ path }, address, take));
    } else {
      const { host, port } = parseHostPort(address);
      for (const { address: ip } of await lookup(host, { all: true })) {
        servers.push(await listen({ host: ip, port: boundPort(servers) || port }, address, take));
      }
    }
  } catch (error) {
    for (const listening of servers) listening.close();
    if (error instanceof RocmForgeError) throw error;
    throw inUse(address, (error as Error).message, error);
  }
  return {
    port: boundPort(servers),
    http2Server,
    failedHandshakes: () => failedHandshakes,
    close: () => {
      for (const listening of servers) listening.close();
    },
  };
}

/**
 * A server that listens nowhere: connections are given to it once they are admitted, and it gives them on once they are
 * encrypted. So grpc-js knows of no certificate, and one that is replaced costs no connection.
 */
function tlsServerOf(tls: TlsMaterial, handshakeTimeout: number, secured: (socket: Socket) => void): TlsServer {
  const identity = tls.current();
  const server = createTlsServer(
    {
      ...identity,
      requestCert: identity.ca !== undefined,
      rejectUnauthorized: true,
      ALPNProtocols: ['h2'],
      minVersion: TLS_MIN_VERSION,
      handshakeTimeout,
    },
    // Who offers protocols without h2 is refused in the handshake; who offers none, here.
    (socket) => (socket.alpnProtocol === 'h2' ? secured(socket) : socket.destroy()),
  );
  tls.onChange((changed) => server.setSecureContext({ ...changed, minVersion: TLS_MIN_VERSION }));
  return server;
}

/**
 * grpc-js keeps the HTTP/2 server of a connection injector to itself, and with it all that is known of connections and of
 * calls that have not arrived yet. Its version is pinned, and whoever raises it is told here.
 */
function http2ServerOf(server: Server): Http2Server {
  const servers: unknown = Reflect.get(server, 'http2Servers');
  const latest: unknown = servers instanceof Map ? [...servers.keys()].at(-1) : undefined;
  if (typeof latest !== 'object' || latest === null || !('setTimeout' in latest)) {
    throw new Error('grpc-js holds its HTTP/2 servers elsewhere now');
  }
  return latest as Http2Server;
}

function listen(
  where: { readonly path: string } | { readonly host: string; readonly port: number },
  address: string,
  take: (socket: Socket) => void,
): Promise<NetServer> {
  return new Promise((resolve, reject) => {
    const server = createServer({ noDelay: true }, take);
    server.once('error', (error) => reject(inUse(address, error.message, error)));
    server.listen(where, () => resolve(server));
  });
}

function boundPort(servers: readonly NetServer[]): number {
  const bound = servers[0]?.address();
  return typeof bound === 'object' && bound !== null ? bound.port : 0;
}

function parseHostPort(address: string): { readonly host: string; readonly port: number } {
  const match = /^(.+):(\d{1,5})$/.exec(address);
  const port = Number(match?.[2]);
  if (match === null || port > MAX_PORT) {
    throw new RocmForgeError('INVALID_OPTION', `"${address}" is no address; use HOST:PORT or unix:PATH`);
  }
  return { host: (match[1] as string).replace(/^\[(.*)\]$/, '$1'), port };
}

async function removeDeadSocket(file: string): Promise<void> {
  if (Buffer.byteLength(file) > MAX_SOCKET_PATH_BYTES) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `the path of unix:${file} has more than the ${MAX_SOCKET_PATH_BYTES} bytes that a socket's may have`,
    );
  }
  if (!existsSync(file)) return;
  if (!lstatSync(file).isSocket()) {
    throw new RocmForgeError('ADDRESS_IN_USE', `unix:${file} is a file or folder and no socket; it is left as it is`);
  }
  const alive = await new Promise<boolean>((resolve) => {
    const socket = connect(file);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
  if (alive) throw new RocmForgeError('ADDRESS_IN_USE', `another process listens on unix:${file}`);
  unlinkSync(file);
}

const inUse = (address: string, message: string, cause: unknown) =>
  new RocmForgeError('ADDRESS_IN_USE', `cannot listen on ${address}: ${message}`, {}, { cause });
