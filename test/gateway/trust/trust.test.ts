import { createHash, generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { PeerCertificate } from 'node:tls';
import { pino } from 'pino';
import { expect, it, vi } from 'vitest';
import type { TrustOptions } from '../../../src/gateway/trust/options.js';
import { Trust } from '../../../src/gateway/trust/trust.js';
import { hasOpenssl, makeAuthority } from '../../support/certificates.js';

const LOG = pino({ level: 'silent' });
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const refused: string[] = [];
const observer = {
  rateLimited: () => undefined,
  requestRejected: () => undefined,
  credentialRefused: (reason: string) => refused.push(reason),
};
const trustOf = (options: TrustOptions) => new Trust(options, observer, LOG);

function fileOf(name: string, text: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
}
const tokenFile = fileOf('tokens', `alice sha256:${createHash('sha256').update('secret').digest('hex')}\n`);

const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
const named = (CN: unknown, valid_to = inAnHour) => ({ subject: { CN }, valid_to }) as PeerCertificate;
const identify = (trust: Trust, authorization: string[], certificate?: PeerCertificate) =>
  trust
    .identify({ authorization, certificate: () => certificate, peer: '10.0.0.1' })
    .catch(({ reason }: { reason: string }) => reason);

it('knows a caller by its peer where nothing is demanded, whatever it shows', async () => {
  expect(await identify(trustOf({}), ['Bearer x'], named('carol'))).toBe('10.0.0.1');
});

it('says what is wrong with a credential, and what to send', async () => {
  const messageOf = (options: TrustOptions, authorization: string[]) =>
    trustOf(options)
      .identify({ authorization, certificate: () => undefined, peer: '10.0.0.1' })
      .catch(({ message }: Error) => message);
  expect(await messageOf({ tokenFile }, [])).toBe('missing credential; send "authorization: Bearer TOKEN"');
  expect(await messageOf({ tokenFile }, ['Bearer wrong'])).toBe(
    'invalid API key; send one that the gateway lists (--token-file)',
  );
  const { publicKey } = generateKeyPairSync('ed25519');
  const jwks = {
    jwksFile: fileOf('jwks', JSON.stringify({ keys: [publicKey.export({ format: 'jwk' })] })),
    jwtIssuer: 'i',
    jwtAudience: 'a',
  };
  expect(await messageOf(jwks, ['Bearer wrong'])).toBe('invalid credential; send a JWT');
});

it('takes one token, once, and counts what it refuses by why', async () => {
  const trust = trustOf({ tokenFile });
  refused.length = 0;
  const answers = [];
  for (const shown of [['Bearer secret'], [], ['Bearer secret', 'Bearer secret'], [`Bearer ${'x'.repeat(9000)}`]]) {
    answers.push(await identify(trust, shown));
  }
  expect(answers).toEqual(['token:alice', 'CREDENTIAL_MISSING', 'CREDENTIAL_INVALID', 'CREDENTIAL_INVALID']);
  expect(refused).toEqual(answers.slice(1));
});

it.skipIf(!hasOpenssl)('knows a caller by its certificate, which must have one name', async () => {
  const authority = makeAuthority('clients');
  const { cert: tlsCert, key: tlsKey } = authority.issue('localhost');
  const tls = { tlsCert, tlsKey, tlsClientCa: authority.ca };
  const trust = trustOf(tls);
  expect(await identify(trust, [], named('carol'))).toBe('cert:carol');
  expect(await identify(trust, [])).toBe('CREDENTIAL_MISSING');
  for (const odd of [undefined, '', ['a', 'b'], 'x'.repeat(257)]) {
    expect(await identify(trust, [], named(odd))).toBe('CREDENTIAL_INVALID');
  }
  const past = new Date(Date.now() - 1000).toUTCString();
  expect(await identify(trust, [], named('carol', past))).toBe('CREDENTIAL_EXPIRED');
  expect(await identify(trust, [], named('carol', 'no date'))).toBe('CREDENTIAL_EXPIRED');
  const both = trustOf({ ...tls, tokenFile });
  expect(await identify(both, ['Bearer secret'], named('carol'))).toBe('token:alice');
  expect(await identify(both, ['Bearer secret'])).toBe('CREDENTIAL_MISSING');
  expect(await identify(both, [], named('carol'))).toBe('CREDENTIAL_MISSING');
});

it('warns of limits for tokens that the token file does not have, whenever either file changes', async () => {
  const lines: { principals?: string[] }[] = [];
  const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  const limitsFile = fileOf(
    'limits',
    '{"principals": {"token:alise": {"streams": 1}, "token:alice": {}, "jwt:bob": {}}}',
  );
  const trust = new Trust({ tokenFile, limitsFile }, observer, log);
  expect(lines.map(({ principals }) => principals)).toEqual([['token:alise']]);
  fileOf('limits', '{"principals": {"token:carol": {}}}');
  await vi.waitFor(() => expect(lines.at(-1)?.principals).toEqual(['token:carol']), 10_000);
  trust.close();
  lines.length = 0;
  new Trust({ limitsFile: fileOf('others', '{"principals": {"token:alice": {}}}') }, observer, log).close();
  new Trust({ tokenFile, limitsFile: fileOf('right', '{"principals": {"token:alice": {}}}') }, observer, log).close();
  expect(lines.map(({ principals }) => principals)).toEqual([['token:alice']]);
});

it.each<[string, TrustOptions, RegExp]>([
  ['keys without an issuer', { jwksFile: tokenFile }, /--jwks-file needs --jwt-issuer and --jwt-audience/],
  ['an audience without keys', { jwtAudience: 'a' }, /--jwt-issuer and --jwt-audience need --jwks-file/],
  ['a certificate without a key', { tlsCert: tokenFile }, /--tls-cert and --tls-key need each other/],
  ['authorities without a certificate', { tlsClientCa: tokenFile }, /--tls-client-ca needs --tls-cert/],
  ['tokens that are not there', { tokenFile: path.join(folder, 'none') }, /^--token-file \S+none does not exist$/],
  ['limits that are not there', { limitsFile: path.join(folder, 'none') }, /^--limits-file \S+none does not exist$/],
  [
    'a certificate that is not there',
    { tlsCert: path.join(folder, 'none'), tlsKey: tokenFile },
    /^--tls-cert \S+none does not exist$/,
  ],
  ['a folder', { limitsFile: folder }, /^--limits-file \S+ is not a file/],
  ['a file of 2 MiB', { tokenFile: fileOf('large', 'x'.repeat(2 << 20)) }, /has 2097152 bytes; the limit is 1048576/],
  ['a certificate that is none', { tlsCert: tokenFile, tlsKey: tokenFile }, /holds no certificate in PEM/],
])('refuses %s', (_what, options, message) => {
  expect(() => trustOf(options)).toThrow(expect.objectContaining({ reason: 'INVALID_OPTION' }));
  expect(() => trustOf(options)).toThrow(message);
});
