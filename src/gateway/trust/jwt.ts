import { createHash } from 'node:crypto';
import { type CryptoKey, createLocalJWKSet, errors, type JSONWebKeySet, type JWTPayload, jwtVerify } from 'jose';
import { RocmForgeError } from '../../shared/errors.js';

/** Algorithms whose verifiers cannot sign. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** Verified tokens that are remembered: verifying one takes a quarter of a millisecond. */
const MOST_REMEMBERED = 4096;
const MAX_SUBJECT_CHARACTERS = 256;
/** The least that RFC 7518 allows RS and PS. */
const LEAST_RSA_BITS = 2048;

/** Claims that a JWT must have in addition to its signature. */
export interface JwtClaims {
  readonly issuer: string;
  readonly audience: string;
}

/** Verifies JSON Web Tokens (RFC 7519) by the public keys of a JWKS (RFC 7517). */
export class JwtVerifier {
  private readonly keys: ReturnType<typeof createLocalJWKSet>;
  /** By the hash of the token, oldest first. */
  private readonly verified = new Map<string, VerifiedToken>();

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
    const known = this.knownSubjectOf(token);
    if (known !== undefined) return known;
    const { sub, exp, nbf = 0 } = await this.verify(token);
    if (typeof sub !== 'string' || sub === '' || sub.length > MAX_SUBJECT_CHARACTERS) {
      throw invalid(`its subject is not 1 to ${MAX_SUBJECT_CHARACTERS} characters`);
    }
    const [oldest] = this.verified.keys();
    if (this.verified.size >= MOST_REMEMBERED && oldest !== undefined) this.verified.delete(oldest);
    this.verified.set(hashOf(token), { subject: sub, expiresMs: Number(exp) * 1000, notBeforeMs: nbf * 1000 });
    return sub;
  }

  /** The subject of a token that was verified before and is still valid; undefined for any other. */
  knownSubjectOf(token: string): string | undefined {
    const hash = hashOf(token);
    const known = this.verified.get(hash);
    if (known === undefined) return undefined;
    const now = this.now();
    // A clock may have been put back.
    if (known.expiresMs > now && known.notBeforeMs <= now) return known.subject;
    this.verified.delete(hash);
    return undefined;
  }

  private async verify(token: string): Promise<JWTPayload> {
    const options = {
      ...this.claims,
      algorithms: ALGORITHMS,
      requiredClaims: ['exp', 'sub'],
      currentDate: new Date(this.now()),
    };
    try {
      return (await jwtVerify(token, this.keys, options)).payload;
    } catch (error) {
      if (error instanceof errors.JWKSMultipleMatchingKeys) {
        return await this.verifyByEach(error, (key) => jwtVerify(token, key, options));
      }
      throw refusalOf(error);
    }
  }

  /** Several keys fit what the JWT says of its own: one of them has signed it, or none. */
  private async verifyByEach(
    keys: AsyncIterable<CryptoKey>,
    verify: (key: CryptoKey) => Promise<{ readonly payload: JWTPayload }>,
  ): Promise<JWTPayload> {
    for await (const key of keys) {
      try {
        return (await verify(key)).payload;
      } catch (error) {
        if (!(error instanceof errors.JWSSignatureVerificationFailed)) throw refusalOf(error);
      }
    }
    throw invalid('none of the keys that fit has signed it');
  }
}

/** A JWT that was verified, without what was signed. */
interface VerifiedToken {
  readonly subject: string;
  readonly expiresMs: number;
  readonly notBeforeMs: number;
}

const hashOf = (token: string): string => createHash('sha256').update(token).digest('base64');

function refusalOf(error: unknown): unknown {
  if (error instanceof errors.JWTExpired) {
    return new RocmForgeError('CREDENTIAL_EXPIRED', 'the JWT has expired; get a new one');
  }
  return error instanceof errors.JOSEError ? invalid(error.message) : error;
}

const invalid = (why: string) => new RocmForgeError('CREDENTIAL_INVALID', `the JWT is not accepted: ${why}`);

function readKeys(path: string, text: string): JSONWebKeySet {
  const refuse = (why: string) => new RocmForgeError('INVALID_OPTION', `${path} is not a usable JWKS: ${why}`);
  let set: unknown;
  try {
    set = JSON.parse(text);
  } catch (error) {
    throw refuse((error as Error).message);
  }
  const keys: unknown = typeof set === 'object' && set !== null && 'keys' in set ? set.keys : undefined;
  if (!Array.isArray(keys) || keys.length === 0) throw refuse('it has no "keys"');
  keys.forEach((key: unknown, i) => {
    const { kty, d, n } = (typeof key === 'object' && key !== null ? key : {}) as Record<string, unknown>;
    const isPublic = typeof kty === 'string' && ['RSA', 'EC', 'OKP'].includes(kty);
    if (!isPublic) throw refuse(`key ${i + 1} has type ${JSON.stringify(kty)}; use an RSA, EC or OKP key`);
    if (d !== undefined) throw refuse(`key ${i + 1} is a private one; publish its public half alone`);
    const bits = kty === 'RSA' ? bitsOf(n) : undefined;
    if (bits !== undefined && bits < LEAST_RSA_BITS) {
      throw refuse(`key ${i + 1} is an RSA key of ${bits} bits; use one of at least ${LEAST_RSA_BITS}`);
    }
  });
  return set as JSONWebKeySet;
}

/** Bits of a number in base64url; 0 for what is none. */
function bitsOf(number: unknown): number {
  const hex = Buffer.from(typeof number === 'string' ? number : '', 'base64url')
    .toString('hex')
    .replace(/^0+/, '');
  return hex === '' ? 0 : 4 * hex.length - Math.clz32(Number.parseInt(hex[0] as string, 16)) + 28;
}
