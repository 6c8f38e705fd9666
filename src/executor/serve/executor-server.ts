import { type Metadata, ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js';
import { isLocal, parseHostPort } from '../../shared/address.js';
import { RocmForgeError } from '../../shared/errors.js';
import { toStatus } from '../../shared/grpc/status.js';
import type { Logger } from '../../shared/log.js';
import { isSameSecret, openSecret, type SharedSecret } from '../../shared/secret.js';
import { openTlsMaterial, type TlsMaterial } from '../../shared/tls.js';

/** Which gateways an executor serves. */
export interface ExecutorServerOptions {
  /** `unix:PATH` or `HOST:PORT`. */
  readonly listen: string;
  /** A secret that gateways must know. */
  readonly secretFile?: string | undefined;
  /** Speak TLS with this certificate. */
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
  /** Authorities of certificates, one of which a gateway must have. */
  readonly tlsClientCa?: string | undefined;
  /** Whoever reaches a loopback address is a gateway. */
  readonly insecure: boolean;
}

/** Options of an executor's server. */
export interface ExecutorServer {
  readonly interceptors: readonly ServerInterceptor[];
  readonly tls: TlsMaterial | undefined;
}

const OPEN_SERVICE = '/grpc.health.v1.Health/';

/**
 * Makes the server of an executor. Who gets in has the device compute what he likes, and ends the streams of others: on TCP
 * that takes a credential, on a Unix socket the file's permissions.
 *
 * @throws RocmForgeError `INVALID_OPTION` for an address that is open to strangers, and for files that are not understood
 */
export function openExecutorServer(options: ExecutorServerOptions, log: Logger): ExecutorServer {
  const { secretFile, tlsCert, tlsKey, tlsClientCa } = options;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) throw refused('--tls-cert and --tls-key need each other');
  if (tlsClientCa !== undefined && tlsCert === undefined) throw refused('--tls-client-ca needs --tls-cert');
  checkAddress(options);
  const secret = secretFile === undefined ? undefined : openSecret({ option: 'secret-file', path: secretFile }, log);
  return {
    interceptors: secret === undefined ? [] : [secretInterceptor(secret)],
    tls: tlsCert && tlsKey ? openTlsMaterial({ cert: tlsCert, key: tlsKey, clientCa: tlsClientCa }, log) : undefined,
  };
}

function checkAddress({ listen, secretFile, tlsClientCa, insecure }: ExecutorServerOptions): void {
  if (!listen.startsWith('unix:')) parseHostPort(listen);
  const isGuarded = listen.startsWith('unix:') || secretFile !== undefined || tlsClientCa !== undefined;
  if (insecure && isGuarded) throw refused('--insecure is for an address that nothing else guards; leave it out');
  if (insecure && !isLocal(listen)) {
    throw refused(`--insecure is for loopback addresses, which ${listen} is not; use --secret-file or --tls-client-ca`);
  }
  if (isGuarded || insecure) return;
  throw refused(
    `${listen} is open to strangers; use --secret-file, --tls-client-ca or, on a loopback address, --insecure`,
  );
}

const refused = (why: string) => new RocmForgeError('INVALID_OPTION', why);

/** Refuses calls without the secret by their headers alone; health is open to everybody. */
function secretInterceptor(secret: SharedSecret): ServerInterceptor {
  return ({ path }, call) => {
    if (path.startsWith(OPEN_SERVICE)) return new ServerInterceptingCall(call);
    const admit = (metadata: Metadata, pass: (metadata: Metadata) => void): void => {
      const error = complaint(metadata.get('authorization').map(String), secret.current());
      if (error === undefined) pass(metadata);
      else call.sendStatus(toStatus(error));
    };
    return new ServerInterceptingCall(call, { start: (next) => next({ onReceiveMetadata: admit }) });
  };
}

function complaint([header, ...more]: readonly string[], secret: string): RocmForgeError | undefined {
  if (header === undefined) {
    return new RocmForgeError(
      'CREDENTIAL_MISSING',
      'this executor demands a secret; give serve --executor-secret-file',
    );
  }
  if (more.length === 0 && isSameSecret(header, `Bearer ${secret}`)) return undefined;
  return new RocmForgeError('CREDENTIAL_INVALID', 'the secret is not that of this executor; give both the same file');
}
