import { connect, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { METRICS_CONNECTIONS } from '../../src/gateway/api/grpc/open-files.js';
import { type MetricsLimits, type MetricsServer, serveMetrics } from '../../src/gateway/metrics-server.js';

const GET = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n';
const FOR_EVER: MetricsLimits = { timeoutMs: 1e9, sharedMs: 1e9 };

let server: MetricsServer;
let sockets: Socket[] = [];
let renderings = 0;
let isReady = true;
let isAlive = true;
afterEach(() => {
  for (const socket of sockets) socket.destroy();
  sockets = [];
  server.close();
});

async function start(
  limits: MetricsLimits,
  metrics = () => Promise.resolve(`rendered ${++renderings}\n`),
): Promise<void> {
  renderings = 0;
  server = await serveMetrics(
    { contentType: 'text/plain; version=0.0.4', metrics },
    '127.0.0.1:0',
    { isAlive: () => isAlive, isReady: () => isReady },
    limits,
  );
}

/** A connection that says something; resolves with what it heard when it is closed. */
function ask(words: string): { readonly socket: Socket; readonly heard: Promise<string> } {
  const socket = connect(server.port, '127.0.0.1', () => socket.write(words));
  sockets.push(socket);
  let text = '';
  socket.on('data', (data) => {
    text += data;
  });
  socket.on('error', () => undefined);
  return { socket, heard: new Promise((resolve) => socket.once('close', () => resolve(text))) };
}

const get = async () => (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text();

it('answers GET /metrics and ends the connection, whatever the client would like', async () => {
  await start(FOR_EVER);
  const answer = await fetch(`http://127.0.0.1:${server.port}/metrics?x=1`, { headers: { connection: 'keep-alive' } });
  expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4');
  expect(answer.headers.get('connection')).toBe('close');
  expect(await answer.text()).toBe('rendered 1\n');
  expect(await ask('GET /metrics HTTP/1.0\n\n').heard).toMatch(/^HTTP\/1\.1 200 OK\r\n.*rendered 1\n$/s);
});

it('answers probes: /healthz unless a restart would help, /readyz while it serves', async () => {
  await start(FOR_EVER);
  const probe = async (path: string) => (await fetch(`http://127.0.0.1:${server.port}${path}`)).status;
  expect([await probe('/healthz'), await probe('/readyz')]).toEqual([200, 200]);
  isReady = false;
  expect([await probe('/healthz'), await probe('/readyz')]).toEqual([200, 503]);
  isAlive = false;
  expect([await probe('/healthz'), await probe('/readyz')]).toEqual([503, 503]);
  isAlive = true;
  isReady = true;
  expect(renderings).toBe(0);
});

it('takes a request in pieces', async () => {
  await start(FOR_EVER);
  const { socket, heard } = ask('GET /met');
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.write('rics HTTP/1.1\r\nHost: x\r');
  setImmediate(() => socket.write('\n\r\n'));
  expect(await heard).toContain('rendered 1');
});

it.each([
  ['POST /metrics HTTP/1.1', 405],
  ['GET / HTTP/1.1', 404],
  ['GET /metrics/x HTTP/1.1', 404],
  ['PRI * HTTP/2.0', 400],
  ['hello', 400],
])('answers "%s" with %i, without rendering', async (line, status) => {
  await start(FOR_EVER);
  expect(await ask(`${line}\r\n\r\n`).heard).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
  expect(renderings).toBe(0);
});

it('hears one request of a connection, of however many in one write', async () => {
  await start({ ...FOR_EVER, sharedMs: 0 });
  const heard = await Promise.all(Array.from({ length: METRICS_CONNECTIONS }, () => ask(GET.repeat(2000)).heard));
  for (const text of heard) expect(text.split('HTTP/1.1 200 OK').length - 1).toBeLessThanOrEqual(1);
  expect(renderings).toBeLessThanOrEqual(METRICS_CONNECTIONS);
});

it('renders one at a time, for all who ask meanwhile and a while after', async () => {
  let finish = (_text: string): void => undefined;
  await start(FOR_EVER, () => {
    renderings += 1;
    return new Promise((resolve) => {
      finish = resolve;
    });
  });
  const waiting = Array.from({ length: 10 }, get);
  await expect.poll(() => renderings).toBe(1);
  finish('one');
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['one']));
  for (let i = 0; i < 20; i++) expect(await get()).toBe('one');
  expect(renderings).toBe(1);
});

it('renders anew when that while is over, and after a failure', async () => {
  let fails = true;
  await start({ ...FOR_EVER, sharedMs: 1 }, () => (fails ? Promise.reject(new Error('no')) : Promise.resolve('yes')));
  expect(await get()).toBe('no\n');
  fails = false;
  await expect.poll(get).toBe('yes');
});

it('answers beside so many connections that say nothing, of which the oldest make room, and tells a HEAD no body', async () => {
  await start(FOR_EVER);
  const silent = Array.from({ length: METRICS_CONNECTIONS }, () => ask(''));
  await Promise.all(silent.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve))));
  for (let i = 0; i < 40; i++) expect(await ask(GET).heard).toContain('rendered');
  expect(silent.map(({ socket }) => socket.destroyed)).toEqual(silent.map((_, i) => i === 0));
  const more = Array.from({ length: METRICS_CONNECTIONS }, () => ask(''));
  await Promise.all(silent.map(({ heard }) => heard));
  expect(more.every(({ socket }) => !socket.destroyed)).toBe(true);
  const head = await ask('HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n').heard;
  expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*Content-Length: 3\r\n[\s\S]*\r\n\r\n$/);
});

it('ends a connection that says nothing, or half of it, or too much', async () => {
  await start({ ...FOR_EVER, timeoutMs: 20 });
  expect(await ask('').heard).toBe('');
  expect(await ask('GET /metrics HTTP/1.1\r\n').heard).toBe('');
  server.close();
  await start(FOR_EVER);
  expect(await ask(`GET /metrics HTTP/1.1\r\nX: ${'x'.repeat(10_000)}`).heard).toBe('');
});

it.each(['9464', '127.0.0.1', '127.0.0.1:99999'])('refuses %s for an address', async (address) => {
  await start(FOR_EVER);
  const source = { contentType: '', metrics: () => Promise.resolve('') };
  await expect(serveMetrics(source, address, { isAlive: () => true, isReady: () => true })).rejects.toMatchObject({
    reason: 'INVALID_OPTION',
  });
});
