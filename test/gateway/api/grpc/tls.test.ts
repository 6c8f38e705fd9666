import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { connect as connectSocket, type Socket } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  GetModelRequest,
  InferenceServiceClient,
  InferenceServiceService,
} from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import {
  hasOpenssl,
  type IssuedCertificate,
  makeAuthority,
  type TestAuthority,
} from '../../../support/certificates.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { generate, request } from '../../../support/gateway.js';

const MESSAGE = request({ text: 'the fox', stop: { maxTokens: 4, ignoreEos: true } });
const LONG = request({ text: 'the fox', stop: { maxTokens: 3000, ignoreEos: true } });

describe.skipIf(!hasOpenssl)('the gRPC server over TLS', () => {
  let servers: TestAuthority;
  let clients: TestAuthority;
  let first: IssuedCertificate;
  beforeAll(() => {
    servers = makeAuthority('servers');
    clients = makeAuthority('clients');
    first = servers.issue('localhost');
  });

  let tls: { tlsCert: string; tlsKey: string };
  let server: FakeGateway;
  const open: { close(): void }[] = [];
  beforeEach(() => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    tls = { tlsCert: path.join(folder, 'cert.pem'), tlsKey: path.join(folder, 'key.pem') };
    put(first);
  });
  afterEach(async () => {
    for (const client of open.splice(0)) client.close();
    await server?.stop();
  });

  function put({ certPem, keyPem }: Pick<IssuedCertificate, 'certPem' | 'keyPem'>): void {
    for (const [file, pem] of [
      [tls.tlsCert, certPem],
      [tls.tlsKey, keyPem],
    ] as const) {
      writeFileSync(`${file}.new`, pem);
      renameSync(`${file}.new`, file);
    }
  }
  const start = async (options: Parameters<typeof startFakeGateway>[0] = {}) => {
    server = await startFakeGateway({ listen: '127.0.0.1:0', ...tls, ...options });
  };

  function client(own?: IssuedCertificate, channel = credentials.createSsl(servers.caPem, own?.keyPem, own?.certPem)) {
    const created = new InferenceServiceClient(`127.0.0.1:${server.gateway.port}`, channel, {
      'grpc.use_local_subchannel_pool': 1,
      'grpc.initial_reconnect_backoff_ms': 60_000,
    });
    open.push(created);
    return created;
  }
  const asked = (by: InferenceServiceClient): Promise<string> =>
    new Promise((resolve) =>
      by.getModel(GetModelRequest.create(), (error: ServiceError | null) =>
        resolve(error === null ? 'OK' : (status[error.code] ?? '')),
      ),
    );

  /** The serial number of the certificate that newcomers see. */
  async function served(): Promise<string> {
    const socket = connectTls({
      port: server.gateway.port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
    });
    await new Promise((resolve) => socket.once('secureConnect', resolve));
    const { serialNumber } = socket.getPeerCertificate();
    socket.destroy();
    return serialNumber;
  }
  /** Resolves when the other side has closed it. */
  const closed = (socket: Socket) =>
    new Promise<void>((resolve) => {
      socket.on('error', () => undefined);
      socket.once('close', () => resolve());
      socket.resume();
    });

  it('serves clients that trust its certificate, and none in clear', async () => {
    await start();
    expect((await generate(client(), MESSAGE)).tokenIds.length).toBe(4);
    expect(await asked(client(undefined, credentials.createInsecure()))).toBe('UNAVAILABLE');
    expect(await asked(client(undefined, credentials.createSsl(clients.caPem)))).toBe('UNAVAILABLE');
    // A client that does not trust the server ends a handshake that the server has finished.
    expect(server.gateway.server.failedHandshakes()).toBe(1);
  });

  it('speaks HTTP/2 alone: who offers other protocols or none is closed, and so is who speaks TLS 1.1', async () => {
    await start();
    const to = { port: server.gateway.port, host: '127.0.0.1', rejectUnauthorized: false };
    await closed(connectTls({ ...to, ALPNProtocols: ['http/1.1'] }));
    await closed(connectTls(to));
    await closed(
      connectTls({
        ...to,
        ALPNProtocols: ['h2'],
        minVersion: 'TLSv1.1',
        maxVersion: 'TLSv1.1',
        ciphers: 'DEFAULT@SECLEVEL=0',
      }),
    );
    await expect.poll(() => server.gateway.server.connections.open).toBe(0);
  });

  it('where client certificates are demanded, knows callers by theirs', async () => {
    const limitsFile = path.join(path.dirname(tls.tlsCert), 'limits.json');
    writeFileSync(limitsFile, JSON.stringify({ principals: { 'cert:alice': { requests_per_minute: 1 } } }));
    await start({ tlsClientCa: clients.ca, limitsFile });
    const [alice, bob] = [clients.issue('alice'), clients.issue('bob')];
    expect([await asked(client(alice)), await asked(client(alice))]).toEqual(['OK', 'RESOURCE_EXHAUSTED']);
    expect([await asked(client(bob)), await asked(client(bob))]).toEqual(['OK', 'OK']);
    for (const bad of [undefined, clients.issue('eve', { expired: true }), makeAuthority('foreign').issue('alice')]) {
      expect(await asked(client(bad))).toBe('UNAVAILABLE');
    }
    await expect.poll(() => server.gateway.server.failedHandshakes()).toBe(3);
    expect(server.gateway.replica.active).toBe(0);
  });

  it('a resumed session is whose it was, and of no use once its authority has gone', async () => {
    const authorities = path.join(path.dirname(tls.tlsCert), 'ca.pem');
    writeFileSync(authorities, clients.caPem);
    const limitsFile = path.join(path.dirname(tls.tlsCert), 'limits.json');
    writeFileSync(limitsFile, JSON.stringify({ principals: { 'cert:alice': { requests_per_minute: 2 } } }));
    await start({ tlsClientCa: authorities, limitsFile });
    const { keyPem: key, certPem: cert } = clients.issue('alice');
    const to = { port: server.gateway.port, host: '127.0.0.1', ca: servers.caPem, servername: 'localhost' };
    let ticket: Buffer | undefined;
    /** Calls over one connection. @returns the gRPC status, or why there is no connection */
    const calls = (more: { key?: Buffer; cert?: Buffer; session?: Buffer | undefined }) =>
      new Promise<string>((resolve) => {
        const socket = connectTls({ ...to, ...more, ALPNProtocols: ['h2'] });
        socket.on('session', (session) => {
          ticket = session;
        });
        const session = connectHttp2('https://localhost', { createConnection: () => socket });
        session.on('error', () => resolve('refused'));
        session.on('close', () => resolve('refused'));
        const path = InferenceServiceService.listModels.path;
        const stream = session.request({
          ':method': 'POST',
          ':path': path,
          'content-type': 'application/grpc',
          te: 'trailers',
        });
        stream.on('error', () => undefined);
        let told = '';
        stream.on('response', (headers) => {
          told = String(headers['grpc-status'] ?? '');
        });
        stream.on('trailers', (trailers) => {
          told = String(trailers['grpc-status']);
        });
        stream.on('close', () => {
          resolve(told === '' ? 'refused' : `${socket.isSessionReused() ? 'resumed' : 'new'} ${told}`);
          session.destroy();
        });
        stream.resume();
        stream.end(Buffer.alloc(5));
      });
    expect(await calls({ key, cert })).toBe('new 0');
    const old = ticket;
    expect(old).toBeDefined();
    expect(await calls({ session: old })).toBe('resumed 0');
    expect(await calls({ session: old })).toBe(`resumed ${status.RESOURCE_EXHAUSTED}`);
    writeFileSync(authorities, makeAuthority('others').caPem);
    await expect.poll(() => calls({ key, cert })).toBe('refused');
    expect(await calls({ session: old })).toBe('refused');
    expect(await calls({ session: old, key, cert })).toBe('refused');
    // A refused client gets a ticket all the same, before anybody looks at the certificate.
    expect(ticket?.equals(old as Buffer)).toBe(false);
    expect(await calls({ session: ticket })).toBe('refused');
  });

  it('serves a new certificate to newcomers when its files change, and open streams go on', async () => {
    await start();
    const old = await served();
    const call = client().generateStream(LONG);
    const over = new Promise((resolve) => call.on('end', () => resolve('OK')).on('error', resolve));
    call.resume();
    // A certificate whose key does not follow is not a certificate.
    const second = servers.issue('localhost');
    writeFileSync(tls.tlsCert, second.certPem);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(await served()).toBe(old);
    put(second);
    await expect.poll(served).not.toBe(old);
    expect(await over).toBe('OK');
    expect(await asked(client())).toBe('OK');
  });

  it('closes who never finishes the handshake, or finishes it and never speaks HTTP/2', async () => {
    await start({ handshakeTimeoutMs: 1000 });
    const to = { port: server.gateway.port, host: '127.0.0.1' };
    const silent = connectSocket(to);
    const half = connectSocket(to);
    // The head of a ClientHello of 512 bytes, and then nothing.
    half.write(Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, ...Array(60).fill(7)]));
    const secured: TLSSocket = connectTls({ ...to, rejectUnauthorized: false, ALPNProtocols: ['h2'] });
    await Promise.all([silent, half, secured].map(closed));
    expect(server.gateway.server.connections.open).toBe(0);
  });

  it('counts connections that are still in their handshake, and closes them for others first', async () => {
    await start({ maxConnections: 16, handshakeTimeoutMs: 600_000 });
    const idle = Array.from({ length: 40 }, () => connectSocket(server.gateway.port, '127.0.0.1'));
    const ends = idle.map(closed);
    await Promise.race(ends);
    expect(server.gateway.server.connections.open).toBeLessThanOrEqual(8);
    expect(await asked(client())).toBe('OK');
    for (const socket of idle) socket.destroy();
    await Promise.all(ends);
  });

  it('survives who resets the connection within the handshake, or sends what is no TLS', async () => {
    await start();
    for (let i = 0; i < 20; i++) {
      const socket = connectSocket(server.gateway.port, '127.0.0.1');
      const end = closed(socket);
      socket.write(i % 2 === 0 ? 'GET / HTTP/1.1\r\n\r\n' : Buffer.from([22, 3, 1, 0, 200, 1]), () =>
        socket.resetAndDestroy(),
      );
      await end;
    }
    expect(await asked(client())).toBe('OK');
  });
});

it('TLS is refused on a socket file, whose permissions guard it', async () => {
  if (!hasOpenssl) return;
  const { cert: tlsCert, key: tlsKey } = makeAuthority('servers').issue('localhost');
  await expect(startFakeGateway({ tlsCert, tlsKey })).rejects.toMatchObject({ reason: 'INVALID_OPTION' });
});
