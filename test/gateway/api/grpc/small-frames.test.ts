import { connect, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { MIN_FRAME_CHARGE } from '../../../../src/gateway/api/frame-charge.js';
import { CallGuard } from '../../../../src/gateway/api/grpc/call-guard.js';
import { createLogger } from '../../../../src/shared/log.js';

const PIECES = 64;
const limits = {
  maxOpenCalls: 10,
  requestTimeoutMs: 60_000,
  maxUnfinishedBytes: PIECES * MIN_FRAME_CHARGE,
  unreadTimeoutMs: 60_000,
  maxUnreadBytes: 1 << 20,
  requestBytes: new Map([['/a/B', 1 << 20]]),
};

it('a call that comes in thousands of frames that are all but empty is refused; others of its connection go on', async () => {
  const abuse: string[] = [];
  const wide = { ...limits, maxUnfinishedBytes: 1 << 30 };
  const guard = new CallGuard(wide, createLogger('test'), (connection) => abuse.push(connection));
  const server = createServer();
  guard.watch(server);
  const served: ServerHttp2Stream[] = [];
  server.on('stream', (stream) => served.push(stream.on('error', () => undefined).resume()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`).on('error', () => undefined);
  const headers = { ':method': 'POST', ':path': '/a/B', 'content-type': 'application/grpc' };
  const other = session.request(headers).end();
  const stream = session.request(headers);
  stream.on('error', () => undefined).resume();
  let status: unknown;
  stream.once('response', (answer) => {
    status = answer['grpc-status'];
  });
  stream.write(Buffer.from([0, 0, 1, 0, 0]));
  for (let sent = 0; sent < 20_000 && status === undefined; sent++) {
    stream.write('x');
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect([status, abuse.length, session.destroyed]).toEqual(['3', 1, false]);
  const answer = new Promise<string>((resolve) => other.on('data', (data: Buffer) => resolve(String(data))));
  served[0]?.respond();
  served[0]?.end('answer');
  expect(await answer).toBe('answer');
  await expect.poll(() => session.destroyed).toBe(true);
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
