import { lookup } from 'node:dns/promises';
import { existsSync, lstatSync, unlinkSync } from 'node:fs';
import { connect, createServer, type Server as NetServer, type Socket } from 'node:net';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls';
import { RocmForgeError } from './errors.js';
import { TLS_MIN_VERSION, type TlsMaterial } from './tls.js';

/** The longest path of a socket file: `sun_path` of Linux without its closing zero. */
const MAX_SOCKET_PATH_BYTES = 107;
const MAX_PORT = 65_535;
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Where connections are taken. */
export interface Listener {
  /** The bound port; 0 for a socket file. */
  readonly port: number;
  /** TLS handshakes that failed so far. */
  readonly failedHandshakes: () => number;
  /** Takes no more connections; those that are open stay. */
  close(): void;
}

/** How connections are taken. */
export interface ListenOptions {
  /** Whether a connection is taken, asked before anything is read of it; one that is not is its to end. */
  readonly admit?: (socket: Socket) => boolean;
  /** Speak TLS, and only that. */
  readonly tls?: TlsMaterial | undefined;
  /** How long a TLS handshake may take; default 10 s. */
  readonly handshakeTimeoutMs?: number;
  /** What is spoken, for TLS to agree on. */
  readonly protocol: 'h2' | 'http/1.1';
}

let unixConnections = 0;

/**
 * Listens on `host:port` or `unix:path`, and hands each connection on. A socket file that nobody listens on is a crashed
 * process's and is removed first; any other file stays. A connection over a socket file has no remote address: it is told
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
    throw new RocmForgeError('INVALID_OPTION', `TLS is for HOST:PORT; ${address} is guarded by its file's permissions`);
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
    failedHandshakes: () => failedHandshakes,
    close: () => {
      for (const listening of servers) listening.close();
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
    // Who offers other protocols is refused in the handshake; who offers none speaks HTTP/1.1.
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
