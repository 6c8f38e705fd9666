import { lookup } from 'node:dns/promises';
import { existsSync, lstatSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server as NetServer, type Socket } from 'node:net';
import path from 'node:path';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls';
import { parseHostPort } from './address.js';
import { RocmForgeError } from './errors.js';
import { removeAtExit } from './exit-removal.js';
import { TLS_MIN_VERSION, type TlsMaterial } from './tls.js';

/** The longest path of a socket file: `sun_path` of Linux without its closing zero. */
const MAX_SOCKET_PATH_BYTES = 107;
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Address on which connections are accepted. */
export interface Listener {
  /** The bound port; 0 for a socket file. */
  readonly port: number;
  /** TLS handshakes that failed so far. */
  readonly failedHandshakes: () => number;
  /** Takes no more connections; those that are open stay. */
  close(): void;
}

/** Options for accepting connections. */
export interface ListenOptions {
  /** True if a connection is taken, asked before anything is read of it; one that is not is its to end. */
  readonly admit?: (socket: Socket) => boolean;
  /** Speak TLS, and only that. */
  readonly tls?: TlsMaterial | undefined;
  /** Time that a TLS handshake may take; default 10 s. */
  readonly handshakeTimeoutMs?: number;
  /** Protocol that TLS agrees on. */
  readonly protocol: 'h2' | 'http/1.1';
}

let unixConnections = 0;

/**
 * Listens on `host:port` or `unix:path`, and hands each connection on. A socket file that nobody listens on is a crashed
 * process's and is removed first; any other file stays. It is removed when the listener closes or this process exits. A connection over a socket file has no remote address: it is told
 * `unix:N` for its peer, another one for each.
 *
 * @throws RocmForgeError `ADDRESS_IN_USE`; `INVALID_OPTION` for what is no address, and for TLS on a socket file
 */
export async function listenOn(
  address: string,
  options: ListenOptions,
  hand: (socket: Socket) => void,
): Promise<Listener> {
  const { admit = () => true, tls } = options;
  const isUnix = address.startsWith('unix:');
  if (isUnix && tls !== undefined) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `TLS requires HOST:PORT; ${address} is protected by its file's permissions`,
    );
  }
  let failedHandshakes = 0;
  const tlsServer = tls && tlsServerOf(tls, options, hand);
  tlsServer?.on('tlsClientError', (_error, socket) => {
    failedHandshakes += 1;
    socket.destroy();
  });
  const take = (socket: Socket): void => {
    if (isUnix) Object.defineProperty(socket, 'remoteAddress', { value: `unix:${++unixConnections}` });
    if (!admit(socket)) return;
    if (tlsServer) tlsServer.emit('connection', socket);
    else hand(socket);
  };
  const servers: NetServer[] = [];
  let forgetFile = (): void => undefined;
  try {
    if (isUnix) {
      const path = address.slice('unix:'.length);
      await removeDeadSocket(path);
      servers.push(await listen({ path }, address, take));
      forgetFile = removeAtExit(path);
    } else {
      const { host, port } = parseHostPort(address);
      for (const { address: ip } of await lookup(host, { all: true })) {
        servers.push(await listen({ host: ip, port: boundPort(servers) || port }, address, take));
      }
    }
  } catch (error) {
    for (const listening of servers) listening.close();
    if (error instanceof RocmForgeError) throw error;
    throw notListening(address, error as Error);
  }
  return {
    port: boundPort(servers),
    failedHandshakes: () => failedHandshakes,
    close: () => {
      for (const listening of servers) listening.close();
      forgetFile();
    },
  };
}

/**
 * A server that listens nowhere: connections are given to it once they are admitted, and it gives them on once they are
 * encrypted. So a certificate that is replaced costs none of them.
 */
function tlsServerOf(
  tls: TlsMaterial,
  { protocol, handshakeTimeoutMs: handshakeTimeout = HANDSHAKE_TIMEOUT_MS }: ListenOptions,
  secured: (socket: Socket) => void,
): TlsServer {
  const identity = tls.current();
  const server = createTlsServer(
    {
      ...identity,
      requestCert: identity.ca !== undefined,
      rejectUnauthorized: true,
      ALPNProtocols: [protocol],
      minVersion: TLS_MIN_VERSION,
      handshakeTimeout,
    },
    // A client that offers other protocols is refused in the handshake; one that offers none speaks HTTP/1.1.
    (socket) => {
      if (socket.alpnProtocol === protocol || protocol === 'http/1.1') secured(socket);
      else socket.destroy();
    },
  );
  tls.onChange((changed) => server.setSecureContext({ ...changed, minVersion: TLS_MIN_VERSION }));
  return server;
}

function listen(
  where: { readonly path: string } | { readonly host: string; readonly port: number },
  address: string,
  take: (socket: Socket) => void,
): Promise<NetServer> {
  return new Promise((resolve, reject) => {
    const server = createServer({ noDelay: true }, take);
    server.once('error', (error) => reject(notListening(address, error)));
    server.listen(where, () => resolve(server));
  });
}

function boundPort(servers: readonly NetServer[]): number {
  const bound = servers[0]?.address();
  return typeof bound === 'object' && bound !== null ? bound.port : 0;
}

async function removeDeadSocket(file: string): Promise<void> {
  if (file === '') {
    throw new RocmForgeError('INVALID_OPTION', 'unix: has no path; give the path of the socket, unix:PATH');
  }
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
  if (alive) throw addressInUse(`unix:${file}`);
  unlinkSync(file);
}

/** Causes that are not another process, and what to do about each. */
const UNUSABLE: Readonly<Record<string, string>> = {
  EADDRNOTAVAIL:
    'this machine does not have that address; use 127.0.0.1 for this machine only, or 0.0.0.0 for all of its addresses',
  ENOTFOUND: 'the host name cannot be resolved; use an IP address of this machine',
  EAI_AGAIN: 'the host name cannot be resolved at present; use an IP address of this machine',
  EACCES: 'this user may not listen there; use a port from 1024 up, or a folder that this user may write to',
  ENOENT: 'the folder of the socket file does not exist; create it first',
};

/** The error of an address on which a server, of whatever kind, could not listen. */
export function notListening(address: string, cause: Error): RocmForgeError {
  const { code: given = '' } = cause as NodeJS.ErrnoException;
  const file = /^unix:(.+)$/.exec(address)?.[1];
  // libuv tells of a missing folder as of one that may not be written.
  const code = given === 'EACCES' && file !== undefined && !existsSync(path.dirname(file)) ? 'ENOENT' : given;
  const why = UNUSABLE[code];
  if (why !== undefined) {
    return new RocmForgeError('INVALID_OPTION', `cannot listen on ${address}: ${why}`, {}, { cause });
  }
  if (code === 'EADDRINUSE') return addressInUse(address, cause);
  return new RocmForgeError('ADDRESS_IN_USE', `cannot listen on ${address}: ${cause.message}`, {}, { cause });
}

function addressInUse(address: string, cause?: Error): RocmForgeError {
  const other = address.startsWith('unix:') ? 'path' : 'port';
  const advice = `stop the process that listens there, or use another ${other}`;
  return new RocmForgeError('ADDRESS_IN_USE', `cannot listen on ${address}: it is in use; ${advice}`, {}, { cause });
}
