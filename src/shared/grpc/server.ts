import type { Http2Server } from 'node:http2';
import { logVerbosity, type Server, ServerCredentials, setLogVerbosity } from '@grpc/grpc-js';
import { type Listener, type ListenOptions, listenOn } from '../listen.js';
import { MAX_MESSAGE_BYTES } from './message-bytes.js';

// grpc-js writes to stderr by itself; what it has to say reaches us as errors.
if (process.env.GRPC_VERBOSITY === undefined) setLogVerbosity(logVerbosity.NONE);

export const SERVER_OPTIONS = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': -1,
} as const;

/** Address of a gRPC server. */
export interface GrpcListener extends Listener {
  /** HTTP/2 server of its connections; for code that watches them. */
  readonly http2Server: Http2Server;
}

/**
 * Binds a server to an address, as {@link listenOn} does: grpc-js knows of no certificate, and one that is replaced costs no
 * connection.
 *
 * @throws RocmForgeError as {@link listenOn}
 */
export async function bind(
  server: Server,
  address: string,
  options: Omit<ListenOptions, 'protocol'> = {},
): Promise<GrpcListener> {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  const http2Server = http2ServerOf(server);
  const listener = await listenOn(address, { ...options, protocol: 'h2' }, (socket) =>
    injector.injectConnection(socket),
  );
  return { ...listener, http2Server };
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
