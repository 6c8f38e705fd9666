import {
  type ChannelCredentials,
  type ChannelOptions,
  credentials,
  InterceptingCall,
  type Interceptor,
} from '@grpc/grpc-js';
import type { RocmForgeClientOptions } from '../../client/index.js';
import { illegalPosition } from '../../shared/bearer-token.js';
import { RocmForgeError } from '../../shared/errors.js';
import { InferenceServiceClient } from '../../shared/generated/rocmforge/v1/inference.js';
import { readOptionFile } from '../../shared/option-file.js';
import type { OptionValues } from '../../shared/option-table.js';
import type { CLIENT_OPTIONS } from './options.js';

/** Credentials of a command at a gateway. */
export type ClientOptions = OptionValues<typeof CLIENT_OPTIONS>;

/** Holds the bearer token: what is on a command line everybody on the machine can read. */
const TOKEN_VARIABLE = 'ROCMFORGE_TOKEN';

/**
 * Credentials for a gateway: the certificate that the options name, and the token of the environment.
 *
 * @throws RocmForgeError `INVALID_OPTION` for certificates and a token that cannot be used
 */
export function shown({
  ca,
  cert,
  key,
}: ClientOptions): RocmForgeClientOptions & { readonly credentials: ChannelCredentials } {
  if (ca === undefined && (cert !== undefined || key !== undefined)) {
    throw new RocmForgeError('INVALID_OPTION', '--cert and --key require --ca');
  }
  const token = tokenOf(process.env);
  return { credentials: channel(ca, key, cert), ...(token !== undefined && { token }) };
}

/**
 * Token of the environment, without the line break of a file that it was read from, as `docker login --password-stdin` drops it. An
 * empty one is none. No message quotes a token.
 */
function tokenOf(env: NodeJS.ProcessEnv): string | undefined {
  const token = env[TOKEN_VARIABLE]?.replace(/\r?\n$/, '');
  const position = illegalPosition(token ?? '');
  if (position !== undefined) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `${TOKEN_VARIABLE} has a character that no token has (position ${position}); set it to one line of visible ASCII characters`,
    );
  }
  return token === '' ? undefined : token;
}

/**
 * The plain client of the gateway at an address, for loads that count its calls.
 *
 * @throws RocmForgeError as {@link shown}
 */
export function gatewayClient(
  address: string,
  options: ClientOptions,
  channelOptions: ChannelOptions = {},
): InferenceServiceClient {
  const { credentials: channelCredentials, token } = shown(options);
  const interceptors = token === undefined ? [] : [bearing(token)];
  return new InferenceServiceClient(address, channelCredentials, { ...channelOptions, interceptors });
}

function channel(ca?: string, key?: string, cert?: string) {
  if (ca === undefined) return credentials.createInsecure();
  const read = (option: string, path: string | undefined) =>
    path === undefined ? null : readOptionFile({ option, path });
  const [caPem, keyPem, certPem] = [read('ca', ca), read('key', key), read('cert', cert)];
  try {
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
