import type { PeerCertificate } from 'node:tls';
import { asRocmForgeError, type ErrorReason, RocmForgeError } from '../../shared/errors.js';
import type { Logger } from '../../shared/log.js';
import { ReloadedFiles } from '../../shared/reloaded-files.js';
import { openTlsMaterial, type TlsMaterial } from '../../shared/tls.js';
import { JwtVerifier } from './jwt.js';
import { Limiter, type LimitObserver } from './limiter.js';
import { NO_LIMITS, readLimits } from './limits.js';
import type { TrustOptions } from './options.js';
import { ProxiedClients } from './proxied-clients.js';
import { Rejections } from './rejections.js';
import { BearerTokens } from './tokens.js';
import { TrustedProxies } from './trusted-proxies.js';

/** Credentials of a caller. */
export interface Presented {
  /** The value of the header of this name; several, where a client sent several. */
  readonly authorization: readonly string[];
  /** Certificate that TLS has verified; read only where it matters. */
  certificate(): PeerCertificate | undefined;
  /** The address, for whoever needs no credential. */
  readonly peer: string;
}

/** Counter of refusals. */
export interface TrustObserver extends LimitObserver {
  credentialRefused(reason: ErrorReason): void;
  requestRejected(api: 'grpc' | 'http', reason: ErrorReason): void;
}

const MAX_CREDENTIAL_CHARACTERS = 8192;
const MAX_NAME_CHARACTERS = 256;
/** Three parts in base64url, the last of which is empty in a token that nobody signed. */
const JWT = /^[\w-]+\.[\w-]+\.[\w-]*$/;

/** Allowed callers and their limits, for all servers. */
export class Trust {
  readonly limiter: Limiter;
  /** The servers' certificate; absent: they speak no TLS. */
  readonly tls: TlsMaterial | undefined;
  readonly proxied: ProxiedClients;
  readonly rejections: Rejections;
  private readonly tokens: ReloadedFiles<BearerTokens> | undefined;
  private readonly jwts: ReloadedFiles<JwtVerifier> | undefined;
  private readonly limits: ReloadedFiles<ReturnType<typeof readLimits>> | undefined;
  private readonly demandsCertificate: boolean;

  /** @throws RocmForgeError `INVALID_OPTION` for files that are not understood and options that need others */
  constructor(
    options: TrustOptions,
    private readonly observer: TrustObserver,
    log: Logger,
  ) {
    const { tokenFile, jwksFile, limitsFile, tlsCert, tlsKey, tlsClientCa } = options;
    const claims = jwtClaims(options);
    if ((tlsCert === undefined) !== (tlsKey === undefined)) throw needs('--tls-cert and --tls-key need', 'each other');
    if (tlsClientCa !== undefined && tlsCert === undefined)
      throw needs('--tls-client-ca needs', '--tls-cert and --tls-key');
    const read = <T>(
      option: string,
      path: string | undefined,
      parse: (path: string, text: string, isReload: boolean) => T,
    ) =>
      path === undefined
        ? undefined
        : new ReloadedFiles([{ option, path }], ([text = ''], isReload) => parse(path, text, isReload), log);
    this.tokens = read('token-file', tokenFile, (path, text, isReload) => new BearerTokens(path, text, isReload));
    this.jwts = read('jwks-file', jwksFile, (path, text) => new JwtVerifier(path, text, claims));
    this.limits = read('limits-file', limitsFile, readLimits);
    this.proxied = new ProxiedClients(new TrustedProxies(options.trustedProxies), (header) =>
      this.knownPrincipal(header),
    );
    this.rejections = new Rejections(log, observer);
    this.limiter = new Limiter(() => this.limits?.current() ?? NO_LIMITS, observer);
    const warn = () => this.warnOfUnknownNames(log);
    for (const files of [this.tokens, this.limits]) files?.onChange(warn);
    warn();
    if (tlsCert !== undefined && tlsKey !== undefined) {
      this.tls = openTlsMaterial({ cert: tlsCert, key: tlsKey, clientCa: tlsClientCa }, log);
    }
    this.demandsCertificate = tlsClientCa !== undefined;
  }

  /** True if callers must show who they are. */
  get demandsCredential(): boolean {
    return this.demandsBearer || this.demandsCertificate;
  }

  /** True if callers must show who they are by a bearer token. */
  get demandsBearer(): boolean {
    return this.tokens !== undefined || this.jwts !== undefined;
  }

  /**
   * Principal of a caller: `token:NAME`, `jwt:SUBJECT`, `cert:NAME`, or the peer where no credential is required. Where a
   * certificate and a token are demanded, both must be there, and the token says who it is.
   *
   * @throws RocmForgeError `CREDENTIAL_MISSING`, `CREDENTIAL_INVALID`, `CREDENTIAL_EXPIRED`
   */
  async identify(presented: Presented): Promise<string> {
    try {
      const name = this.demandsCertificate ? certificateName(presented.certificate()) : undefined;
      if (this.demandsBearer) return await this.bearerName(presented.authorization);
      return name === undefined ? presented.peer : `cert:${name}`;
    } catch (error) {
      this.observer.credentialRefused(asRocmForgeError(error).reason);
      throw error;
    }
  }

  /** The principal of a bearer's header where it is known at once: a token of the file, or a JWT that was verified before. */
  private knownPrincipal(authorization: string): string | undefined {
    const bearer = bearerOf(authorization);
    if (bearer === undefined) return undefined;
    const name = this.tokens?.current().nameOf(bearer);
    if (name !== undefined) return `token:${name}`;
    const subject = this.jwts?.current().knownSubjectOf(bearer);
    return subject === undefined ? undefined : `jwt:${subject}`;
  }

  /** A misspelt name in the limits file leaves its principal with the default limits, which may be none. */
  private warnOfUnknownNames(log: Logger): void {
    const { principals } = this.limits?.current() ?? NO_LIMITS;
    const tokens = this.tokens?.current();
    const unknown = principals.filter((name) => name.startsWith('token:') && !tokens?.hasName(name.slice(6)));
    if (unknown.length > 0)
      log.warn({ principals: unknown }, 'the limits file names tokens that the token file does not have');
  }

  /** Looks at the files no more. */
  close(): void {
    for (const files of [this.tokens, this.jwts, this.limits, this.tls]) files?.close();
  }

  private async bearerName(authorization: readonly string[]): Promise<string> {
    const [header, ...more] = authorization;
    if (header === undefined) {
      throw new RocmForgeError('CREDENTIAL_MISSING', 'missing credential; send "authorization: Bearer TOKEN"');
    }
    const bearer = bearerOf(header);
    if (bearer === undefined || more.length > 0) {
      throw new RocmForgeError('CREDENTIAL_INVALID', 'the credential is not one "authorization: Bearer TOKEN"');
    }
    const name = this.tokens?.current().nameOf(bearer);
    if (name !== undefined) return `token:${name}`;
    const jwts = this.jwts?.current();
    if (jwts !== undefined && JWT.test(bearer)) return `jwt:${await jwts.subjectOf(bearer)}`;
    throw new RocmForgeError(
      'CREDENTIAL_INVALID',
      this.tokens === undefined
        ? 'invalid credential; send a JWT'
        : 'invalid API key; send one that the gateway lists (--token-file)',
    );
  }
}

/** The token of a header `Bearer TOKEN`; undefined for any other. */
function bearerOf(header: string): string | undefined {
  const bearer = /^Bearer +(\S+)$/i.exec(header)?.[1];
  return bearer === undefined || bearer.length > MAX_CREDENTIAL_CHARACTERS ? undefined : bearer;
}

function jwtClaims({ jwksFile, jwtIssuer = '', jwtAudience = '' }: TrustOptions) {
  // A token that the same issuer gave for another service must not open this one.
  const isWhole = jwtIssuer !== '' && jwtAudience !== '';
  if (jwksFile !== undefined && !isWhole) throw needs('--jwks-file needs', '--jwt-issuer and --jwt-audience');
  if (jwksFile === undefined && (jwtIssuer !== '' || jwtAudience !== '')) {
    throw needs('--jwt-issuer and --jwt-audience need', '--jwks-file');
  }
  return { issuer: jwtIssuer, audience: jwtAudience };
}

const needs = (what: string, other: string) => new RocmForgeError('INVALID_OPTION', `${what} ${other}`);

/**
 * The common name of a certificate's subject.
 *
 * @throws RocmForgeError `CREDENTIAL_MISSING`, `CREDENTIAL_EXPIRED`, `CREDENTIAL_INVALID`
 */
function certificateName(certificate: PeerCertificate | undefined): string {
  if (certificate === undefined) {
    throw new RocmForgeError('CREDENTIAL_MISSING', 'the connection has no client certificate; connect with one');
  }
  // TLS has looked at it once, when a connection or the session that it resumes began.
  if (!(Date.parse(certificate.valid_to) > Date.now())) {
    throw new RocmForgeError('CREDENTIAL_EXPIRED', 'the client certificate has expired; connect with a new one');
  }
  const name: unknown = certificate.subject?.CN;
  if (typeof name === 'string' && name !== '' && name.length <= MAX_NAME_CHARACTERS) return name;
  throw new RocmForgeError(
    'CREDENTIAL_INVALID',
    'the client certificate does not have exactly one common name; get one that has',
  );
}
