import { connect, createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { CallGuard } from '../../../../src/gateway/doors/grpc/call-guard.js';
import { PIECE_BYTES } from '../../../../src/gateway/doors/pieces.js';
import { createLogger } from '../../../../src/shared/log.js';

const PIECES = 64;
const limits = {
  maxOpenCalls: 10,
  requestTimeoutMs: 60_000,
  maxUnfinishedBytes: PIECES * PIECE_BYTES,
  unreadTimeoutMs: 60_000,
  maxUnreadBytes: 1 << 20,
  requestBytes: new Map([['/a/B', 1 << 20]]),
};

it('a connection whose call comes in thousands of frames that are all but empty is ended', async () => {
  const offenders: string[] = [];
  const wide = { ...limits, maxUnfinishedBytes: 1 << 30 };
  const guard = new CallGuard(wide, createLogger('test'), (connection) => offenders.push(connection));
  const server = createServer();
  guard.watch(server);
  server.on('stream', (stream) => stream.on('error', () => undefined).resume());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`).on('error', () => undefined);
  const stream = session.request({ ':method': 'POST', ':path': '/a/B', 'content-type': 'application/grpc' });
  stream.on('error', () => undefined);
  stream.write(Buffer.from([0, 0, 1, 0, 0]));
  for (let sent = 0; sent < 20_000 && !session.destroyed; sent++) {
    stream.write('x');
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(session.destroyed).toBe(true);
  expect(offenders).toHaveLength(1);
  server.close();
});

it('a request in frames of one byte counts for what the frames cost, not for their bytes', async () => {
  const guard = new CallGuard(limits, createLogger('test'));
  const server = createServer();
  guard.watch(server);
  server.on('stream', (stream) => stream.on('error', () => undefined).resume());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const stream = session.request({ ':method': 'POST', ':path': '/a/B', 'content-type': 'application/grpc' });
  stream.on('error', () => undefined);
  const status = new Promise<unknown>((resolve) =>
    stream.once('response', (headers) => resolve(headers['grpc-status'])),
  );
  stream.write(Buffer.from([0, 0, 0, 4, 0]));
  let sent = 0;
  while (sent < 20 * PIECES && guard.counters.slowSenders === 0) {
    stream.write('x');
    sent += 1;
    await new Promise((resolve) => setImmediate(resolve));
  }
  try {
    expect(guard.counters.slowSenders).toBe(1);
    expect(await status).toBe('8');
  } finally {
    session.destroy();
    server.close();
  }
});
