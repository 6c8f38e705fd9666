import { createServer, type Server } from 'node:net';
import { pino } from 'pino';
import { afterEach, describe, expect, it } from 'vitest';
import { connectionProblem } from '../../../../src/gateway/replica/link/connection-problem.js';
import type { RemoteExecutor } from '../../../../src/gateway/replica/link/remote-executor.js';
import { openTlsMaterial, type TlsFiles, type TlsMaterial } from '../../../../src/shared/tls.js';
import { FakeExecutor } from '../../../doubles/fake-executor.js';
import { hasOpenssl, type IssuedCertificate, makeAuthority } from '../../../support/certificates.js';
import { FAKE_VOCABULARY } from '../../../support/fake-gateway.js';

const TIMEOUT_MS = 2000;
const LOG = pino({ level: 'silent' });

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** An executor on TCP that speaks TLS with these files, or none. @returns its port */
async function executorPort(files?: TlsFiles): Promise<number> {
  const tls: TlsMaterial | undefined = files && openTlsMaterial(files, LOG);
  const executor = new FakeExecutor({ vocabulary: FAKE_VOCABULARY, kvBlocks: 8, stepMs: 1 });
  const port = await executor.listen('127.0.0.1:0', tls);
  ends.push(
    () => executor.stop(),
    () => tls?.close(),
  );
  return port;
}

const problemOf = (executor: RemoteExecutor) => connectionProblem(executor, TIMEOUT_MS);

/** A TCP server that does something else. @returns its port */
function otherPort(answer: string | undefined): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on('error', () => undefined);
    if (answer === undefined) socket.destroy();
    else socket.end(answer);
  });
  ends.push(() => server.close());
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
  });
}

describe('without TLS', () => {
  it('an executor that answers has no problem', async () => {
    expect(await problemOf({ address: `127.0.0.1:${await executorPort()}` })).toBeUndefined();
  });

  it('nothing that listens is no mismatch: an executor may come', async () => {
    const port = await otherPort('');
    await ends.pop()?.();
    for (const address of [`127.0.0.1:${port}`, 'unix:/nowhere/executor.sock']) {
      const problem = await problemOf({ address });
      expect(problem).toEqual({ why: expect.stringMatching(/^connect (ECONNREFUSED|ENOENT) /), isMismatch: false });
    }
  });

  it.each([undefined, 'HTTP/1.1 400 Bad Request\r\n\r\n'])(
    'a server of another kind is named so: %s',
    async (answer) => {
      expect(await problemOf({ address: `127.0.0.1:${await otherPort(answer)}` })).toEqual({
        why: 'what listens there speaks neither HTTP/2 nor TLS; check the address',
        isMismatch: false,
      });
    },
  );
});

describe.skipIf(!hasOpenssl)('with TLS', () => {
  const cluster = hasOpenssl ? makeAuthority('cluster') : undefined!;
  const other = hasOpenssl ? makeAuthority('other') : undefined!;
  const filesOf = ({ cert, key }: IssuedCertificate, clientCa?: string): TlsFiles => ({ cert, key, clientCa });
  const gateway = hasOpenssl ? cluster.issue('gateway') : undefined!;
  const identity = hasOpenssl ? { ca: cluster.ca, cert: gateway.cert, key: gateway.key } : undefined!;

  it('an executor that answers has no problem', async () => {
    const own = cluster.issue('executor');
    const guarded = `127.0.0.1:${await executorPort(filesOf(own, cluster.ca))}`;
    expect(await problemOf({ address: guarded, ...identity })).toBeUndefined();
    const open = `localhost:${await executorPort(filesOf(own))}`;
    expect(await problemOf({ address: open, ca: cluster.ca })).toBeUndefined();
  });

  const mismatches: readonly [string, () => [TlsFiles | undefined, Omit<RemoteExecutor, 'address'>], RegExp][] = [
    [
      'a certificate for another name',
      () => [filesOf(cluster.issue('executor', { holders: ['DNS:other.example'] })), { ca: cluster.ca }],
      /^its certificate is not valid for 127\.0\.0\.1: .*; name the executor as its certificate does$/,
    ],
    [
      'a certificate of another authority',
      () => [filesOf(other.issue('executor')), { ca: cluster.ca }],
      /^its certificate is refused: .* \((UNABLE_TO|SELF_SIGNED)\w+\); --executor-ca must hold/,
    ],
    [
      'a certificate that has expired',
      () => [filesOf(cluster.issue('executor', { expired: true })), { ca: cluster.ca }],
      /^its certificate is refused: certificate has expired \(CERT_HAS_EXPIRED\); issue another$/,
    ],
    ['an executor without TLS', () => [undefined, { ca: cluster.ca }], /^the executor does not speak TLS; /],
    [
      'a gateway without TLS',
      () => [filesOf(cluster.issue('executor')), {}],
      /^the executor speaks TLS and this gateway does not; give --executor-ca$/,
    ],
    [
      'a gateway without TLS, of an executor that demands certificates',
      () => [filesOf(cluster.issue('executor'), cluster.ca), {}],
      /^the executor speaks TLS and this gateway does not; give --executor-ca$/,
    ],
    [
      'a gateway without a certificate',
      () => [filesOf(cluster.issue('executor'), cluster.ca), { ca: cluster.ca }],
      /^the executor demands a client certificate.*; give --executor-cert and --executor-key$/,
    ],
    [
      'a gateway with a certificate of another authority',
      () => [filesOf(cluster.issue('executor'), other.ca), identity],
      /^the executor refuses the client certificate in .*; its --tls-client-ca must hold/,
    ],
  ];
  it.each(mismatches)('%s is a mismatch', async (_what, sides, why) => {
    const [files, credentials] = sides();
    const address = `127.0.0.1:${await executorPort(files)}`;
    expect(await problemOf({ address, ...credentials })).toEqual({ why: expect.stringMatching(why), isMismatch: true });
  });
});
