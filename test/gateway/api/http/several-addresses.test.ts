import { mkdtempSync } from 'node:fs';
import { request } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { freePort } from '../../../support/free-port.js';

let server: FakeGateway | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

const socketPath = () => path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'http.sock');

/** Status of `GET /health` at an address, by the name `host`. */
const statusAt = (to: { readonly port?: number; readonly socketPath?: string }, host: string): Promise<unknown> =>
  new Promise((resolve) => {
    const call = request({ host: '127.0.0.1', ...to, path: '/health', headers: { host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    call.on('error', (error: NodeJS.ErrnoException) => resolve(error.code));
    call.end();
  });

it('serves HTTP at several addresses, each with the names that it takes, until the end', async () => {
  const unix = socketPath();
  server = await startFakeGateway({ httpListen: '127.0.0.1:0', moreHttpListen: ['127.0.0.1:0', `unix:${unix}`] });
  const { ports = [] } = server.gateway.httpServer ?? {};
  expect(ports).toEqual([expect.any(Number), expect.any(Number), 0]);
  expect(new Set(ports).size).toBe(3);
  const at = [{ port: ports[0] as number }, { port: ports[1] as number }, { socketPath: unix }];
  const statuses = (host: string) => Promise.all(at.map((one) => statusAt(one, host)));
  expect(await statuses('localhost')).toEqual([200, 200, 200]);
  // A page's name that resolves here is none of a loopback address.
  expect(await statuses('evil.example')).toEqual([421, 421, 200]);
  await server.stop();
  server = undefined;
  expect(await statuses('localhost')).toEqual(['ECONNREFUSED', 'ECONNREFUSED', 'ENOENT']);
});

it('starts at no address where one of them is in use', async () => {
  const [free, used] = [await freePort(), await freePort()];
  server = await startFakeGateway({ httpListen: `127.0.0.1:${used}` });
  await expect(
    startFakeGateway({ httpListen: `127.0.0.1:${free}`, moreHttpListen: [`127.0.0.1:${used}`] }),
  ).rejects.toMatchObject({ reason: 'ADDRESS_IN_USE' });
  expect([await statusAt({ port: used }, 'localhost'), await statusAt({ port: free }, 'localhost')]).toEqual([
    200,
    'ECONNREFUSED',
  ]);
});
