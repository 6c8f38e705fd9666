import { createHmac, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { exportJWK, SignJWT } from 'jose';
import { beforeAll, expect, it } from 'vitest';
import { JwtVerifier } from '../../../src/gateway/trust/jwt.js';

const CLAIMS = { issuer: 'https://issuer.example', audience: 'rocmforge' };
const NOW = 1_800_000_000;
const ours = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const foreign = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });

let jwks: string;
let now = NOW;
beforeAll(async () => {
  const keys = [
    { ...(await exportJWK(ours.publicKey)), kid: 'ec' },
    { ...(await exportJWK(rsa.publicKey)), kid: 'rsa' },
  ];
  jwks = JSON.stringify({ keys });
});
const verifier = () => new JwtVerifier('keys', jwks, CLAIMS, () => now * 1000);

interface Parts {
  readonly key?: KeyObject;
  readonly alg?: string;
  readonly kid?: string;
  readonly claims?: Record<string, unknown>;
}
function signed({ key = ours.privateKey, alg = 'ES256', kid = 'ec', claims = {} }: Parts = {}): Promise<string> {
  const whole = { iss: CLAIMS.issuer, aud: CLAIMS.audience, sub: 'alice', exp: NOW + 60, ...claims };
  return new SignJWT(JSON.parse(JSON.stringify(whole))).setProtectedHeader({ alg, kid }).sign(key);
}

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const payload = encoded({ iss: CLAIMS.issuer, aud: CLAIMS.audience, sub: 'alice', exp: NOW + 60 });

it('tells the subject of a token that one of its keys has signed', async () => {
  expect(await verifier().subjectOf(await signed())).toBe('alice');
  expect(await verifier().subjectOf(await signed({ key: rsa.privateKey, alg: 'RS256', kid: 'rsa' }))).toBe('alice');
});

const withPublicKey = () => {
  const head = `${encoded({ alg: 'HS256', kid: 'rsa' })}.${payload}`;
  const secret = createPublicKey(rsa.publicKey.export({ type: 'spki', format: 'pem' })).export({
    type: 'spki',
    format: 'pem',
  });
  return `${head}.${createHmac('sha256', secret).update(head).digest('base64url')}`;
};

it.each<[string, () => Promise<string> | string, string]>([
  ['that has expired', () => signed({ claims: { exp: NOW - 1 } }), 'CREDENTIAL_EXPIRED'],
  ['that never expires', () => signed({ claims: { exp: undefined } }), 'CREDENTIAL_INVALID'],
  ['that is not valid yet', () => signed({ claims: { nbf: NOW + 30 } }), 'CREDENTIAL_INVALID'],
  ['of another issuer', () => signed({ claims: { iss: 'https://other.example' } }), 'CREDENTIAL_INVALID'],
  ['for another audience', () => signed({ claims: { aud: 'mail' } }), 'CREDENTIAL_INVALID'],
  ['without a subject', () => signed({ claims: { sub: undefined } }), 'CREDENTIAL_INVALID'],
  ['with an empty subject', () => signed({ claims: { sub: '' } }), 'CREDENTIAL_INVALID'],
  ['with a subject of 257 characters', () => signed({ claims: { sub: 'a'.repeat(257) } }), 'CREDENTIAL_INVALID'],
  ['by a foreign key', () => signed({ key: foreign.privateKey }), 'CREDENTIAL_INVALID'],
  ['by a key that is not named', () => signed({ kid: 'other' }), 'CREDENTIAL_INVALID'],
  ['with alg none', () => `${encoded({ alg: 'none' })}.${payload}.`, 'CREDENTIAL_INVALID'],
  ['with HS256 and the public key as its secret', withPublicKey, 'CREDENTIAL_INVALID'],
  [
    'whose claims were changed',
    async () => (await signed()).replace(/\.[^.]+\./, `.${payload}x.`),
    'CREDENTIAL_INVALID',
  ],
])('refuses a token %s', async (_what, make, reason) => {
  await expect(verifier().subjectOf(await make())).rejects.toMatchObject({ reason, code: 'UNAUTHENTICATED' });
});

it('refuses a token that it has verified once it expires, and not before', async () => {
  const known = verifier();
  const token = await signed();
  now = NOW;
  await known.subjectOf(token);
  now = NOW + 59;
  expect(await known.subjectOf(token)).toBe('alice');
  now = NOW + 60;
  await expect(known.subjectOf(token)).rejects.toMatchObject({ reason: 'CREDENTIAL_EXPIRED' });
  now = NOW;
});

it.each([
  ['no JSON', 'keys', /not a usable JWKS/],
  ['no keys', '{"keys": []}', /no "keys"/],
  ['a secret', '{"keys": [{"kty": "oct", "k": "AAAA"}]}', /key 1 has type "oct"/],
  ['a private key', JSON.stringify({ keys: [{ kty: 'EC', crv: 'P-256', d: 'AA' }] }), /key 1 is a private one/],
])('refuses a file of %s', (_what, text, message) => {
  expect(() => new JwtVerifier('keys', text, CLAIMS)).toThrow(message);
});

it('tries each of the keys that fit, whichever it is that has signed', async () => {
  const others = Array.from({ length: 3 }, () => generateKeyPairSync('ec', { namedCurve: 'P-256' }));
  const pairs = [...others.slice(0, 2), ours, ...others.slice(2)];
  const withoutKid = (key: KeyObject, exp = NOW + 60) =>
    new SignJWT({ iss: CLAIMS.issuer, aud: CLAIMS.audience, sub: 'alice', exp })
      .setProtectedHeader({ alg: 'ES256' })
      .sign(key);
  for (const kid of ['same', undefined]) {
    const keys = await Promise.all(pairs.map(async ({ publicKey }) => ({ ...(await exportJWK(publicKey)), kid })));
    const rotating = new JwtVerifier('keys', JSON.stringify({ keys }), CLAIMS, () => now * 1000);
    for (const { privateKey } of pairs) {
      const token = await (kid === undefined ? withoutKid(privateKey) : signed({ key: privateKey, kid }));
      expect(await rotating.subjectOf(token)).toBe('alice');
    }
    const reasonOf = async (token: Promise<string>) =>
      rotating.subjectOf(await token).then(
        () => 'taken',
        ({ reason }) => reason,
      );
    expect(await reasonOf(withoutKid(foreign.privateKey))).toBe('CREDENTIAL_INVALID');
    expect(await reasonOf(withoutKid(ours.privateKey, NOW - 1))).toBe('CREDENTIAL_EXPIRED');
  }
});

it.each([1024, 2047, 2048])('an RSA key of %i bits is refused by its number, or taken', async (modulusLength) => {
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength });
  const keys = [await exportJWK(ours.publicKey), await exportJWK(publicKey)];
  const read = () => new JwtVerifier('keys', JSON.stringify({ keys }), CLAIMS);
  if (modulusLength >= 2048) expect(read).not.toThrow();
  else expect(read).toThrow(`key 2 is an RSA key of ${modulusLength} bits; use one of at least 2048`);
});

it('holds a token that it remembers against nbf when the clock is put back', async () => {
  const remembering = verifier();
  const token = await signed({ claims: { nbf: NOW + 30 } });
  try {
    now = NOW + 40;
    expect(await remembering.subjectOf(token)).toBe('alice');
    now = NOW;
    await expect(remembering.subjectOf(token)).rejects.toMatchObject({ reason: 'CREDENTIAL_INVALID' });
  } finally {
    now = NOW;
  }
});
