import path from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import { RocmForgeClient, RocmForgeClientError } from '../../client/index.js';
import { startGateway } from '../../gateway/main.js';
import type { SERVE_OPTIONS } from '../../gateway/option-table.js';
import { RocmForgeError } from '../../shared/errors.js';
import type {
  GenerateChunk,
  GenerateComplete,
  GenerateStreamRequest,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { fromServiceError } from '../../shared/grpc/status.js';
import type { GivenValues } from '../../shared/option-table.js';
import type { TARGET_OPTIONS } from '../generate/text-commands.js';
import { gatewayOptions } from '../serve/gateway-options.js';
import { type ClientOptions, shown } from './gateway-client.js';
import { temporaryFolder } from './temporary-folder.js';

/** A client of a gateway, and how to be done with it. */
export interface Connection {
  readonly client: RocmForgeClient;
  close(): Promise<void>;
}

/**
 * Connects to the gateway at an address, or starts one for this command alone, on a private socket.
 *
 * @throws RocmForgeError `INVALID_OPTION`, or why a gateway does not start
 */
export async function connect(
  options: GivenValues<typeof SERVE_OPTIONS & typeof TARGET_OPTIONS> & ClientOptions,
): Promise<Connection> {
  if (options.address !== undefined) {
    const client = new RocmForgeClient(options.address, shown(options));
    return { client, close: async () => client.close() };
  }
  if (options.ca !== undefined) {
    throw new RocmForgeError('INVALID_OPTION', '--ca requires --address');
  }
  const { folder, remove } = temporaryFolder();
  const listen = `unix:${path.join(folder, 'gateway.sock')}`;
  const gateway = await startGateway(gatewayOptions({ ...options, model: options.model ?? '', listen }));
  const client = new RocmForgeClient(listen);
  return {
    client,
    close: async () => {
      client.close();
      await gateway.stop();
      remove();
    },
  };
}

/** The name of the model that a running gateway is asked for; empty: its first, or the one that was loaded for the command. */
export const servedModel = ({ model = '', address }: GivenValues<typeof TARGET_OPTIONS>): string =>
  address === undefined ? '' : model;

/**
 * Runs a generation. Resolves with the end of each of its completions, in the order in which they came.
 *
 * @param signal ends it
 * @throws RocmForgeError the gateway's error
 */
export async function stream(
  client: RocmForgeClient,
  request: GenerateStreamRequest,
  onChunk: (chunk: GenerateChunk) => void,
  signal?: AbortSignal,
): Promise<readonly GenerateComplete[]> {
  const completes: GenerateComplete[] = [];
  try {
    for await (const event of client.generateStream(request, signal && { signal })) {
      if (event.$case === 'chunk') onChunk(event.value);
      else completes.push(event.value);
    }
  } catch (error) {
    throw error instanceof RocmForgeClientError ? fromServiceError(error.cause as ServiceError) : error;
  }
  if (completes.length === 0) throw new Error('the stream ended early');
  return completes;
}
