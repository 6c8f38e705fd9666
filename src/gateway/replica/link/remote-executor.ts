import { type ChannelCredentials, credentials, InterceptingCall, type Interceptor } from '@grpc/grpc-js';
import { RocmForgeError } from '../../../shared/errors.js';
import { readOptionFile } from '../../../shared/option-file.js';
import { readSecret } from '../../../shared/secret.js';

/** An executor that this gateway did not start, and how the two know each other. */
export interface RemoteExecutor {
  /** `HOST:PORT` or `unix:PATH`. */
  readonly address: string;
  /** A secret that the executor demands. */
  readonly secretFile?: string | undefined;
  /** Speak TLS with an executor whose certificate is of these authorities. */
  readonly ca?: string | undefined;
  /** This gateway's own certificate, where the executor demands one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

/** Options of a client of the executor. */
export interface LinkCredentials {
  readonly channel: ChannelCredentials;
  readonly interceptors: readonly Interceptor[];
}

/** Executor on a socket in a folder of our own. */
export const LOCAL_LINK: LinkCredentials = { channel: credentials.createInsecure(), interceptors: [] };

/**
 * Reads how to reach an executor, anew for each session: files that were replaced count from the next on.
 *
 * @throws RocmForgeError `INVALID_OPTION` for files that cannot be used
 */
export function linkCredentials({ address, secretFile, ca, cert, key }: RemoteExecutor): LinkCredentials {
  if ((cert === undefined) !== (key === undefined)) throw refused('--executor-cert and --executor-key need each other');
  if (cert !== undefined && ca === undefined) throw refused('--executor-cert needs --executor-ca');
  if (ca !== undefined && address.startsWith('unix:')) throw refused(`TLS is for HOST:PORT; ${address} needs none`);
  return {
    channel: ca === undefined ? credentials.createInsecure() : tlsCredentials(ca, key, cert),
    interceptors:
      secretFile === undefined ? [] : [bearing(readSecret({ option: 'executor-secret-file', path: secretFile }))],
  };
}

function tlsCredentials(ca: string, key: string | undefined, cert: string | undefined): ChannelCredentials {
  const read = (option: string, path: string | undefined) =>
    path === undefined ? null : readOptionFile({ option, path });
  const [caPem, keyPem, certPem] = [read('executor-ca', ca), read('executor-key', key), read('executor-cert', cert)];
  try {
    return credentials.createSsl(caPem, keyPem, certPem);
  } catch (error) {
    throw refused(`--executor-ca, --executor-cert or --executor-key cannot be used: ${(error as Error).message}`);
  }
}

/** Sends the secret with each call; gRPC's own way to do so refuses connections without TLS, such as a tunnel's. */
function bearing(secret: string): Interceptor {
  return (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start: (metadata, listener, next) => {
        metadata.set('authorization', `Bearer ${secret}`);
        next(metadata, listener);
      },
    });
}

const refused = (why: string) => new RocmForgeError('INVALID_OPTION', why);
