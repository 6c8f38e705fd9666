import { lookup } from 'node:dns/promises';
import { existsSync, lstatSync, unlinkSync } from 'node:fs';
import type { Http2Server } from 'node:http2';
import { connect, createServer, type Server as NetServer, type Socket } from 'node:net';
import { logVerbosity, type Server, ServerCredentials, setLogVerbosity } from '@grpc/grpc-js';
import { RocmForgeError } from '../errors.js';
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
  /** Takes no more connections; those that are open stay. */
  close(): void;
}

let unixConnections = 0;

/**
 * Binds a server to `host:port` or `unix:path`. A socket file that nobody listens on is a crashed process's and is
 * removed first; any other file stays. A connection over a socket file has no remote address: calls over it are told
 * `unix:N` for their peer, another one for each connection.
 *
 * @param admit whether a connection is taken; it is closed otherwise
 * @throws RocmForgeError `ADDRESS_IN_USE`; `INVALID_OPTION` for what is no address
 */
export async function bind(
  server: Server,
  address: string,
  admit: (socket: Socket) => boolean = () => true,
): Promise<Listener> {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const http2Server = http2ServerOf(server);
  const { port, close } = await listenOn(address, (socket) => {
    if (admit(socket)) injector.injectConnection(socket);
    else socket.destroy();
  });
  return { port, http2Server, close };
}

/**
 * Listens on `host:port` or `unix:path` as {@link bind} does, and hands each connection on.
 *
 * @throws RocmForgeError as {@link bind}
 */
export async function listenOn(
  address: string,
  take: (socket: Socket) => void,
): Promise<Pick<Listener, 'port' | 'close'>> {
  const isUnix = address.startsWith('unix:');
  const named = (socket: Socket): void => {
    if (isUnix) Object.defineProperty(socket, 'remoteAddress', { value: `unix:${++unixConnections}` });
    take(socket);
  };
  const servers: NetServer[] = [];
  try {
    if (isUnix) {
      const path = address.slice('unix:'.length);
      await removeDeadSocket(path);
      servers.push(await listen({ path }, address, named));
    } else {
      const { host, port } = parseHostPort(address);
      for (const { address: ip } of await lookup(host, { all: true })) {
        servers.push(await listen({ host: ip, port: boundPort(servers) || port }, address, named));
      }
    }
  } catch (error) {
    for (const listening of servers) listening.close();
    if (error instanceof RocmForgeError) throw error;
    throw inUse(address, (error as Error).message, error);
  }
  return {
    port: boundPort(servers),
    close: () => {
      for (const listening of servers) listening.close();
    },
  };
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
