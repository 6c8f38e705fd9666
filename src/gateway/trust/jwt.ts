import { createHash } from 'node:crypto';
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose';
import { RocmForgeError } from '../../shared/errors.js';

/** Of these nobody who can verify can sign. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** Verified tokens that are remembered: verifying one takes a quarter of a millisecond. */
const MOST_REMEMBERED = 4096;
const MAX_SUBJECT_CHARACTERS = 256;

/** What a JWT must say beside being signed. */
export interface JwtClaims {
  readonly issuer: string;
  readonly audience: string;
}

/** Verifies JSON Web Tokens (RFC 7519) by the public keys of a JWKS (RFC 7517). */
export class JwtVerifier {
  private readonly keys: ReturnType<typeof createLocalJWKSet>;
  /** By the hash of the token, oldest first. */
  private readonly verified = new Map<string, { readonly subject: string; readonly expiresMs: number }>();

  /** @throws RocmForgeError `INVALID_OPTION` for what is no set of public keys */
  constructor(
    path: string,
    text: string,
    private readonly claims: JwtClaims,
    private readonly now: () => number = Date.now,
  ) {
    this.keys = createLocalJWKSet(readKeys(path, text));
  }

  /**
   * The subject of a token.
   *
   * @throws RocmForgeError `CREDENTIAL_EXPIRED`, or `CREDENTIAL_INVALID` with what is wrong
   */
  async subjectOf(token: string): Promise<string> {
    const hash = createHash('sha256').update(token).digest('base64');
    const known = this.verified.get(hash);
    if (known !== undefined) {
      if (known.expiresMs > this.now()) return known.subject;
      this.verified.delete(hash);
    }
    const { sub, exp } = await this.verify(token);
    if (typeof sub !== 'string' || sub === '' || sub.length > MAX_SUBJECT_CHARACTERS) {
      throw invalid(`its subject is not 1 to ${MAX_SUBJECT_CHARACTERS} characters`);
    }
    const [oldest] = this.verified.keys();
    if (this.verified.size >= MOST_REMEMBERED && oldest !== undefined) this.verified.delete(oldest);
    this.verified.set(hash, { subject: sub, expiresMs: Number(exp) * 1000 });
    return sub;
  }

  private async verify(token: string) {
    try {
      const { payload } = await jwtVerify(token, this.keys, {
        ...this.claims,
        algorithms: ALGORITHMS,
        requiredClaims: ['exp', 'sub'],
        currentDate: new Date(this.now()),
      });
      return payload;
    } catch (error) {
      if (error instanceof errors.JWTExpired) {
        throw new RocmForgeError('CREDENTIAL_EXPIRED', 'the JWT has expired; get a new one');
      }
      if (error instanceof errors.JOSEError) throw invalid(error.message);
      throw error;
    }
  }
}

const invalid = (why: string) => new RocmForgeError('CREDENTIAL_INVALID', `the JWT is not accepted: ${why}`);

function readKeys(path: string, text: string): JSONWebKeySet {
  const refuse = (why: string) => new RocmForgeError('INVALID_OPTION', `${path} is no JWKS that can be used: ${why}`);
  let set: unknown;
  try {
    set = JSON.parse(text);
  } catch (error) {
    throw refuse((error as Error).message);
  }
  const keys: unknown = typeof set === 'object' && set !== null && 'keys' in set ? set.keys : undefined;
  if (!Array.isArray(keys) || keys.length === 0) throw refuse('it has no "keys"');
  keys.forEach((key: unknown, i) => {
    const { kty, d } = (typeof key === 'object' && key !== null ? key : {}) as Record<string, unknown>;
    const isPublic = typeof kty === 'string' && ['RSA', 'EC', 'OKP'].includes(kty);
    if (!isPublic) throw refuse(`key ${i + 1} is of type ${JSON.stringify(kty)}; RSA, EC and OKP keys are taken`);
    if (d !== undefined) throw refuse(`key ${i + 1} is a private one; publish its public half alone`);
  });
  return set as JSONWebKeySet;
}
