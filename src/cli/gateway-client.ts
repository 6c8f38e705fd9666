import { readFileSync } from 'node:fs';
import { type ChannelOptions, credentials, InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { RocmForgeError } from '../shared/errors.js';
import { InferenceServiceClient } from '../shared/generated/rocmforge/v1/inference.js';

/** How a command shows a gateway who it is. */
export interface ClientOptions {
  /** Speak TLS with a gateway whose certificate is of these authorities. */
  readonly ca?: string;
  /** The command's own certificate and its key. */
  readonly cert?: string;
  readonly key?: string;
}

/** Holds the bearer token: what is on a command line everybody on the machine can read. */
const TOKEN_VARIABLE = 'ROCMFORGE_TOKEN';

/**
 * A client of the gateway at an address.
 *
 * @throws RocmForgeError `INVALID_OPTION` for certificates that cannot be used
 */
export function gatewayClient(
  address: string,
  { ca, cert, key }: ClientOptions,
  channelOptions: ChannelOptions = {},
): InferenceServiceClient {
  if (ca === undefined && (cert !== undefined || key !== undefined)) {
    throw new RocmForgeError('INVALID_OPTION', '--cert and --key are of TLS, which --ca asks for');
  }
  const token = process.env[TOKEN_VARIABLE];
  const interceptors = token === undefined ? [] : [bearing(token)];
  return new InferenceServiceClient(address, channel(ca, key, cert), { ...channelOptions, interceptors });
}

function channel(ca?: string, key?: string, cert?: string) {
  if (ca === undefined) return credentials.createInsecure();
  try {
    const [caPem, keyPem, certPem] = [ca, key, cert].map((file) => (file === undefined ? null : readFileSync(file)));
    return credentials.createSsl(caPem, keyPem, certPem);
  } catch (error) {
    throw new RocmForgeError('INVALID_OPTION', `--ca, --cert or --key cannot be used: ${(error as Error).message}`);
  }
}

function bearing(token: string): Interceptor {
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start: (metadata, listener, next) => {
        metadata.set('authorization', `Bearer ${token}`);
        next(metadata, listener);
      },
    });
}
