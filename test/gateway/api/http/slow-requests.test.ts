import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, rawAnswer } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  const limits = { requestTimeoutMs: 1000, maxConnections: 16 };
  server = await startFakeGateway({ httpListen: '127.0.0.1:0', ...limits });
});
afterAll(() => server.stop());

const SERVICE = '/rocmforge.v1.InferenceService';
const unfinished = (path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`;

it.each(['/v1/chat/completions', '/completion', `${SERVICE}/Generate`])(
  'a request to %s that does not arrive in time is answered with an error in its form',
  async (path) => {
    const answer = await rawAnswer(server.gateway, unfinished(path));
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject(
      path.startsWith(SERVICE) ? { code: 'resource_exhausted' } : { error: { message: expect.any(String) } },
    );
  },
);

it('a request whose headers do not arrive in time is answered with 408, on a connection that was used, too', async () => {
  const { gateway } = await startFakeGateway({ httpListen: '127.0.0.1:0', handshakeTimeoutMs: 1000 });
  const answer = await rawAnswer(gateway, 'GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /hea');
  expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*HTTP\/1\.1 408 /);
  await gateway.stop();
});

it('connections that only send make room for whoever comes', async () => {
  const sockets: Socket[] = [];
  for (let i = 0; i < 20; i++) {
    const socket = connect(server.gateway.httpServer!.port, '127.0.0.1').on('error', () => undefined);
    sockets.push(socket);
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.write(unfinished('/v1/completions'));
  }
  expect((await ask(server.gateway, '/health')).status).toBe(200);
  for (const socket of sockets) socket.destroy();
});

it('nobody waits at the end for a request that has not arrived', async () => {
  const ending = await startFakeGateway({ httpListen: '127.0.0.1:0' });
  const socket = connect(ending.gateway.httpServer!.port, '127.0.0.1').on('error', () => undefined);
  socket.write(unfinished('/v1/completions'));
  await expect.poll(() => ending.gateway.httpServer!.bodies.unfinishedCount).toBe(1);
  expect(ending.gateway.httpServer!.unanswered).toBe(0);
  socket.destroy();
  await ending.stop();
});
