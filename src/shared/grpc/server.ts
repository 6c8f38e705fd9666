import { existsSync, unlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { logVerbosity, type Server, ServerCredentials, setLogVerbosity } from '@grpc/grpc-js';
import { RocmForgeError } from '../errors.js';

// grpc-js writes to stderr by itself; what it has to say reaches us as errors.
if (process.env.GRPC_VERBOSITY === undefined) setLogVerbosity(logVerbosity.NONE);

/** The largest message either side accepts: room for a prompt of a million tokens. */
export const MAX_MESSAGE_BYTES = 16 << 20;

export const SERVER_OPTIONS = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': -1,
} as const;

/**
 * Binds a server to `host:port` or `unix:path`. A socket file that nobody listens on is a crashed process's and is
 * removed first.
 *
 * @returns the bound port; 0 for a socket file
 * @throws RocmForgeError `ADDRESS_IN_USE`
 */
export async function bind(server: Server, address: string): Promise<number> {
  if (address.startsWith('unix:')) await removeDeadSocket(address.slice('unix:'.length));
  else if (!/^(.+):\d{1,5}$/.test(address)) {
    throw new RocmForgeError('INVALID_OPTION', `"${address}" is no address; use HOST:PORT or unix:PATH`);
  }
  return await new Promise<number>((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, port) => {
      if (error) {
        reject(
          new RocmForgeError('ADDRESS_IN_USE', `cannot listen on ${address}: ${error.message}`, {}, { cause: error }),
        );
      } else {
        resolve(port);
      }
    });
  });
}

async function removeDeadSocket(file: string): Promise<void> {
  if (!existsSync(file)) return;
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
