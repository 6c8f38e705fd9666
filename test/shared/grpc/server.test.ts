import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { credentials, makeGenericClientConstructor, Server, ServerCredentials, type ServiceError } from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import { bind, type GrpcListener, SERVER_OPTIONS } from '../../../src/shared/grpc/server.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const bytes = (value: Buffer) => value;
const definition = {
  peer: {
    path: '/test/peer',
    requestStream: false,
    responseStream: false,
    requestDeserialize: bytes,
    requestSerialize: bytes,
    responseDeserialize: bytes,
    responseSerialize: bytes,
  },
} as const;

const open: { server: Server; listener: GrpcListener }[] = [];
afterEach(() => {
  for (const { server, listener } of open.splice(0)) {
    listener.close();
    server.forceShutdown();
  }
});

async function listen(address: string): Promise<GrpcListener> {
  const server = new Server(SERVER_OPTIONS);
  server.addService(definition, {
    peer: (call: { getPeer(): string }, callback: (error: null, peer: Buffer) => void) =>
      callback(null, Buffer.from(call.getPeer())),
  });
  const listener = await bind(server, address);
  open.push({ server, listener });
  return listener;
}

function peerSeenBy(address: string): Promise<string> {
  const Client = makeGenericClientConstructor(definition, 'test');
  const client = new Client(address, credentials.createInsecure());
  return new Promise((resolve, reject) => {
    const method = client.peer as (
      request: Buffer,
      callback: (error: ServiceError | null, peer: Buffer) => void,
    ) => unknown;
    method.call(client, Buffer.alloc(0), (error, peer) => {
      client.close();
      if (error) reject(error);
      else resolve(peer.toString());
    });
  });
}

it('a regular file where the socket should be is left as it is', async () => {
  const file = path.join(folder, 'notes.txt');
  writeFileSync(file, 'mine');
  await expect(listen(`unix:${file}`)).rejects.toMatchObject({ reason: 'ADDRESS_IN_USE' });
  expect(readFileSync(file, 'utf8')).toBe('mine');
});

it.each([
  ['a folder', () => `unix:${folder}`, 'ADDRESS_IN_USE'],
  ['a path of 120 characters', () => `unix:/tmp/${'p'.repeat(115)}`, 'INVALID_OPTION'],
  ['a file in a folder that is none', () => `unix:${folder}/nowhere/x.sock`, 'INVALID_OPTION'],
  ['a port above 65535', () => '127.0.0.1:70000', 'INVALID_OPTION'],
  ['no port', () => 'localhost', 'INVALID_OPTION'],
  ['a host that nobody has', () => 'no.such.host.invalid:1', 'INVALID_OPTION'],
])('%s is refused with a reason', async (_what, address, reason) => {
  await expect(listen(address())).rejects.toMatchObject({ reason });
});

it('the socket of a process that is gone is taken over, that of a living one is not', async () => {
  const file = path.join(folder, 'dead.sock');
  const first = await listen(`unix:${file}`);
  await expect(listen(`unix:${file}`)).rejects.toMatchObject({ reason: 'ADDRESS_IN_USE' });
  first.close();
  expect(existsSync(file)).toBe(false);
  mkdirSync(folder, { recursive: true });
  await listen(`unix:${file}`);
  expect(await peerSeenBy(`unix:${file}`)).toMatch(/^unix:\d+$/);
});

it('calls are told their connection: address and port, or a number of its own on a socket file', async () => {
  const { port } = await listen('127.0.0.1:0');
  expect(await peerSeenBy(`127.0.0.1:${port}`)).toMatch(/^127\.0\.0\.1:\d+$/);
  const file = path.join(folder, 'peers.sock');
  await listen(`unix:${file}`);
  const peers = [await peerSeenBy(`unix:${file}`), await peerSeenBy(`unix:${file}`)];
  expect(new Set(peers).size).toBe(2);
});

it('localhost is bound on each of its addresses, all at one port', async () => {
  const { port } = await listen('localhost:0');
  expect(port).toBeGreaterThan(0);
  await new Promise<void>((resolve, reject) => {
    const socket = connect({ host: 'localhost', port }, () => {
      socket.destroy();
      resolve();
    });
    socket.on('error', reject);
  });
});

it('grpc-js still keeps its HTTP/2 servers where they are looked for', async () => {
  const server = new Server(SERVER_OPTIONS);
  server.createConnectionInjector(ServerCredentials.createInsecure());
  expect([...(Reflect.get(server, 'http2Servers') as Map<object, unknown>).keys()]).toHaveLength(1);
  server.forceShutdown();
});
