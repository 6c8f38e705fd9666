import { once } from 'node:events';
import { connect, constants, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { STREAMS_A_TURN, StreamTurns } from '../../../../src/gateway/api/grpc/stream-turns.js';

/** A server that tells in which turn of the loop each stream began, and a client of it. */
async function served() {
  const server = createServer();
  const begun: { readonly turn: number; readonly path: string }[] = [];
  let turn = 0;
  const count = (): void => {
    turn += 1;
    if (server.listening) setImmediate(count);
  };
  server.on('stream', (stream: ServerHttp2Stream, headers) => {
    begun.push({ turn, path: headers[':path'] as string });
    stream.respond({ ':status': 200 }, { endStream: true });
  });
  new StreamTurns().watch(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  count();
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await once(client, 'remoteSettings');
  const close = () => {
    client.destroy();
    server.close();
  };
  return { client, begun, close };
}

it('lets few streams of a connection begin in a turn, all of them in their order', async () => {
  const { client, begun, close } = await served();
  const answered = Array.from({ length: 90 }, (_, i) => once(client.request({ ':path': `/${i}` }).resume(), 'end'));
  await Promise.all(answered);
  expect(begun.map(({ path }) => path)).toEqual(Array.from({ length: 90 }, (_, i) => `/${i}`));
  const inTurn = new Map<number, number>();
  for (const { turn } of begun) inTurn.set(turn, (inTurn.get(turn) ?? 0) + 1);
  expect(Math.max(...inTurn.values())).toBeLessThanOrEqual(STREAMS_A_TURN);
  close();
});

it('does not begin what was reset before its turn', async () => {
  const { client, begun, close } = await served();
  let closed = 0;
  const streams = Array.from({ length: 90 }, (_, i) => client.request({ ':path': `/${i}` }));
  for (const stream of streams) {
    stream
      .on('error', () => undefined)
      .on('close', () => {
        closed += 1;
      });
    stream.close(constants.NGHTTP2_CANCEL);
  }
  await expect.poll(() => closed).toBe(90);
  const last = client.request({ ':path': '/last' }).resume();
  await once(last, 'end');
  // A client's frames come in a few reads, each of which may begin some.
  expect(begun.length).toBeLessThan(45);
  expect(begun.at(-1)?.path).toBe('/last');
  close();
});
