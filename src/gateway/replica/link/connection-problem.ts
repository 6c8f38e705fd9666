import { readFileSync } from 'node:fs';
import { connect as connectTcp, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { TLS_MIN_VERSION } from '../../../shared/tls.js';
import type { RemoteExecutor } from './remote-executor.js';

/** Why a gateway and whatever listens at an executor's address cannot talk. */
export interface ConnectionProblem {
  /** Completes "no executor answers at ADDRESS: …". */
  readonly why: string;
  /** True if the two sides disagree about TLS, which waiting does not change: an executor that starts is not reachable yet. */
  readonly isMismatch: boolean;
}

/** First bytes of an HTTP/2 client: the preface of RFC 9113 and an empty SETTINGS frame. */
const HTTP2_PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');
/** The type of a frame is its fourth byte. */
const SETTINGS_TYPE_AT = 3;
const SETTINGS_TYPE = 4;

/** Outcome of an attempt to connect. */
type Attempt =
  /** Bytes came: what the server sends first. */
  | { readonly is: 'answered'; readonly first: Buffer }
  /** The connection was made, and ended or failed before any byte came. */
  | { readonly is: 'closed'; readonly error: NodeJS.ErrnoException | undefined }
  /** There was none: of TLS, the handshake did not succeed. */
  | { readonly is: 'refused'; readonly error: NodeJS.ErrnoException }
  | { readonly is: 'silent'; readonly isConnected: boolean };

/**
 * Connects to an executor's address as a gateway does and returns what prevents the two from talking; undefined where nothing
 * does. A gRPC client only reports that its channel is not ready.
 *
 * @param timeoutMs how long each of at most two connections may take
 */
export async function connectionProblem(
  executor: RemoteExecutor,
  timeoutMs: number,
): Promise<ConnectionProblem | undefined> {
  const { address, ca } = executor;
  if (address.startsWith('unix:')) {
    return reachability(await attempt(connectTcp({ path: address.slice('unix:'.length) }), 'connect', timeoutMs));
  }
  const where = whereOf(address);
  if (where === undefined) return undefined;
  return ca === undefined ? plainProblem(where, timeoutMs) : tlsProblem(where, executor, timeoutMs);
}

interface Where {
  readonly host: string;
  readonly port: number;
}

function whereOf(address: string): Where | undefined {
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(address) ?? [];
  if (host === undefined) return undefined;
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}

async function plainProblem(where: Where, timeoutMs: number): Promise<ConnectionProblem | undefined> {
  const plain = await plainAttempt(where, timeoutMs);
  if (plain.is === 'silent' || isHttp2(plain)) return undefined;
  if (plain.is === 'refused') return reachability(plain);
  // Nothing is sent over it: whose certificate it is does not matter.
  const secure = await attempt(tlsSocket(where, { rejectUnauthorized: false }), 'secureConnect', timeoutMs);
  if (speaksTls(secure)) return mismatch('the executor speaks TLS and this gateway does not; give --executor-ca');
  return { why: 'what listens there speaks neither HTTP/2 nor TLS; check the address', isMismatch: false };
}

async function tlsProblem(
  where: Where,
  { ca, cert, key }: RemoteExecutor,
  timeoutMs: number,
): Promise<ConnectionProblem | undefined> {
  const [caPem, certPem, keyPem] = [ca, cert, key].map((file) => (file === undefined ? undefined : readFileSync(file)));
  const identity = { ...(certPem && { cert: certPem }), ...(keyPem && { key: keyPem }), ...(caPem && { ca: caPem }) };
  const secure = await attempt(tlsSocket(where, identity), 'secureConnect', timeoutMs);
  switch (secure.is) {
    case 'answered':
    case 'silent':
      return undefined;
    // TLS 1.3: the client has finished its handshake before the server looks at its certificate.
    case 'closed':
      return mismatch(clientCertificateProblem(cert, secure.error));
    case 'refused':
      return handshakeProblem(where, secure.error, cert, timeoutMs);
  }
}

async function handshakeProblem(
  where: Where,
  error: NodeJS.ErrnoException,
  cert: string | undefined,
  timeoutMs: number,
): Promise<ConnectionProblem | undefined> {
  const { code = '', message } = error;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return mismatch(
      `its certificate is not valid for ${where.host}: ${message}; name the executor as its certificate does`,
    );
  }
  if (isAlert(error)) return mismatch(clientCertificateProblem(cert, error));
  if (CERTIFICATE_ERRORS.test(code)) {
    const help = DATE_ERRORS.test(code) ? 'issue another' : '--executor-ca must hold the authority that signed it';
    return mismatch(`its certificate is refused: ${message} (${code}); ${help}`);
  }
  const plain = await plainAttempt(where, timeoutMs);
  if (plain.is === 'refused') return reachability(plain);
  if (isHttp2(plain)) {
    return mismatch(
      'the executor does not speak TLS; start it with --tls-cert and --tls-key, or leave out --executor-ca',
    );
  }
  return { why: `the TLS handshake failed: ${message}`, isMismatch: false };
}

/** Codes of OpenSSL's certificate verification, as Node names them. */
const CERTIFICATE_ERRORS = /CERT|SIGNATURE|CRL|CHAIN|PURPOSE|INVALID_CA|PATH_LENGTH|HOSTNAME_MISMATCH/;

const DATE_ERRORS = /CERT_HAS_EXPIRED|CERT_NOT_YET_VALID/;

const isAlert = ({ code = '' }: NodeJS.ErrnoException): boolean => code.includes('_ALERT_');

function clientCertificateProblem(cert: string | undefined, error: Error | undefined): string {
  const said = error === undefined ? '' : ` (${error.message.trim()})`;
  return cert === undefined
    ? `the executor demands a client certificate${said}; give --executor-cert and --executor-key`
    : `the executor refuses the client certificate in ${cert}${said}; its --tls-client-ca must hold the authority that signed it`;
}

const mismatch = (why: string): ConnectionProblem => ({ why, isMismatch: true });

function reachability(attempted: Attempt): ConnectionProblem | undefined {
  return attempted.is === 'refused' ? { why: attempted.error.message, isMismatch: false } : undefined;
}

function plainAttempt(where: Where, timeoutMs: number): Promise<Attempt> {
  const socket = connectTcp(where);
  socket.write(HTTP2_PREFACE);
  return attempt(socket, 'connect', timeoutMs);
}

const isHttp2 = (plain: Attempt): boolean => plain.is === 'answered' && plain.first[SETTINGS_TYPE_AT] === SETTINGS_TYPE;

/** A server that refuses the handshake by an alert speaks TLS, too. */
function speaksTls(secure: Attempt): boolean {
  switch (secure.is) {
    case 'refused':
      return isAlert(secure.error);
    case 'silent':
      return secure.isConnected;
    default:
      return true;
  }
}

function tlsSocket({ host, port }: Where, options: ConnectionOptions): TLSSocket {
  return connectTls({ host, port, ALPNProtocols: ['h2'], minVersion: TLS_MIN_VERSION, ...options });
}

/** @param connected the event after which the connection is made */
function attempt(socket: Socket, connected: 'connect' | 'secureConnect', timeoutMs: number): Promise<Attempt> {
  return new Promise((resolve) => {
    let isConnected = false;
    const end = (result: Attempt): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(result);
    };
    const timer = setTimeout(() => end({ is: 'silent', isConnected }), timeoutMs);
    socket.once(connected, () => {
      isConnected = true;
    });
    socket.once('data', (first: Buffer) => end({ is: 'answered', first }));
    // Not once: what is destroyed may fail again.
    socket.on('error', (error) => end(isConnected ? { is: 'closed', error } : { is: 'refused', error }));
    socket.once('close', () => {
      end(isConnected ? { is: 'closed', error: undefined } : { is: 'refused', error: new Error('it hung up') });
    });
  });
}
