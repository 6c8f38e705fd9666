import { connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, rawAnswer } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ httpListen: '127.0.0.1:0', allowedHosts: ['Models.example'] });
});
afterAll(() => server.stop());

const get = (target: string, host: string) =>
  rawAnswer(server.gateway, `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);

it.each(['127.0.0.1:8080', 'localhost', 'LOCALHOST:1', '[::1]:80', 'models.example'])(
  'a loopback server is asked as %s',
  async (host) => {
    expect(await get('/v1/models', host)).toMatch(/^HTTP\/1\.1 200 /);
  },
);

it.each(['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example'])(
  'a page of %s, which resolves to this machine, gets nothing',
  async (host) => {
    expect(await get('/v1/models', host)).toMatch(/^HTTP\/1\.1 421 [\s\S]*HOST_NOT_SERVED/);
  },
);

it('a target with scheme and host is its path', async () => {
  expect(await get('http://127.0.0.1/v1/models?x=1', '127.0.0.1')).toMatch(/^HTTP\/1\.1 200 /);
});

it('whoever asks whether to send a body is told the error in its place', async () => {
  const head = 'POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n';
  expect(await rawAnswer(server.gateway, head)).toMatch(/^HTTP\/1\.1 404 /);
  const body = JSON.stringify({ content: 'the fox' });
  const socket = connect(server.gateway.httpServer!.port, '127.0.0.1');
  const type = 'Content-Type: application/json\r\nConnection: close';
  socket.write(
    `POST /tokenize HTTP/1.1\r\nHost: localhost\r\n${type}\r\nContent-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
  );
  let heard = '';
  await new Promise((resolve) => {
    socket.on('close', resolve);
    socket.on('data', (data) => {
      heard += data.toString();
      if (heard.startsWith('HTTP/1.1 100 Continue') && !heard.includes('200')) socket.write(body);
    });
  });
  expect(heard).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
});

it('counts what it refuses, by why', async () => {
  await ask(server.gateway, '/nowhere');
  const told = await server.gateway.metrics.registry.metrics();
  expect(told).toMatch(/rocmforge_http_errors_total\{reason="PATH_NOT_FOUND"\} [1-9]/);
  expect(told).toMatch(/rocmforge_slow_senders_total\{api="http"\} 0/);
});
