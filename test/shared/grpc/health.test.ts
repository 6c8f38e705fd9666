import { credentials, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { afterEach, expect, test } from 'vitest';
import {
  HealthClient,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../../../src/shared/generated/grpc/health/v1/health.js';
import { Health, LIVENESS } from '../../../src/shared/grpc/health.js';

const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
});

async function serve(health: Health): Promise<HealthClient> {
  const server = new Server();
  health.addTo(server);
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  const client = new HealthClient(`127.0.0.1:${port}`, credentials.createInsecure());
  ends.push(
    () => client.close(),
    () => server.forceShutdown(),
  );
  return client;
}

const check = (client: HealthClient, service: string) =>
  new Promise((resolve) =>
    client.check({ service }, (error, response) => resolve(error ? error.code : response.status)),
  );

test('tells of the server, of each service, and of no other', async () => {
  const health = new Health(['a.A']);
  const client = await serve(health);
  expect(await check(client, '')).toBe(ServingStatus.NOT_SERVING);
  health.setServing(true);
  expect(await check(client, '')).toBe(ServingStatus.SERVING);
  expect(await check(client, 'a.A')).toBe(ServingStatus.SERVING);
  expect(await check(client, 'a.B')).toBe(status.NOT_FOUND);
  expect(await check(client, 'x'.repeat(100_000))).toBe(status.NOT_FOUND);
  const listed = await new Promise((resolve, reject) =>
    client.list({}, (error, response) => (error ? reject(error) : resolve(response.statuses))),
  );
  expect(listed).toEqual({ '': { status: ServingStatus.SERVING }, 'a.A': { status: ServingStatus.SERVING } });
});

test('liveness is told apart from the services', async () => {
  const health = new Health(['a.A'], [LIVENESS]);
  health.setServing(true, LIVENESS);
  const client = await serve(health);
  for (const serving of [false, true, false]) {
    health.setServing(serving);
    expect(await check(client, LIVENESS)).toBe(ServingStatus.SERVING);
  }
  const heard: ServingStatus[] = [];
  const watch = client.watch({ service: LIVENESS });
  watch.on('error', () => undefined).on('data', (response) => heard.push(response.status));
  await expect.poll(() => heard.length).toBe(1);
  for (const serving of [true, false]) health.setServing(serving);
  // Answered after all that was written for those who watch.
  await check(client, '');
  expect(heard).toEqual([ServingStatus.SERVING]);
  watch.cancel();
});

test('tells those who watch at once, and of changes alone', async () => {
  const health = new Health(['a.A']);
  const client = await serve(health);
  const heard: ServingStatus[] = [];
  const watch = client.watch({ service: 'a.A' });
  watch.on('error', () => undefined);
  const next = (count: number) =>
    new Promise<void>((resolve) => {
      const look = () => (heard.length >= count ? resolve() : setTimeout(look, 2));
      look();
    });
  watch.on('data', (response) => heard.push(response.status));
  await next(1);
  for (const serving of [false, true, true, false]) health.setServing(serving);
  await next(3);
  expect(heard).toEqual([ServingStatus.NOT_SERVING, ServingStatus.SERVING, ServingStatus.NOT_SERVING]);
  watch.cancel();

  const stranger = client.watch({ service: 'a.B' });
  stranger.on('error', () => undefined);
  const first = await new Promise((resolve) => stranger.once('data', (response) => resolve(response.status)));
  expect(first).toBe(ServingStatus.SERVICE_UNKNOWN);
  stranger.cancel();
});

test('tells of names that are told apart by themselves, and those who watch one of nothing else', async () => {
  const health = new Health(['a.A'], ['a.A/x', 'a.A/y']);
  const client = await serve(health);
  const { SERVING, NOT_SERVING } = ServingStatus;
  const heard: Record<string, ServingStatus[]> = { 'a.A': [], 'a.A/x': [], 'a.A/y': [] };
  const watches = Object.entries(heard).map(([service, statuses]) => {
    const watch = client.watch({ service });
    watch.on('error', () => undefined).on('data', (response) => statuses.push(response.status));
    return watch;
  });
  await expect.poll(() => Object.values(heard).map(({ length }) => length)).toEqual([1, 1, 1]);
  health.setServing(true);
  health.setServing(true, 'a.A/x');
  health.setServing(true, 'a.A/x');
  expect(await Promise.all(['', 'a.A', 'a.A/x', 'a.A/y'].map((name) => check(client, name)))).toEqual([
    ...[SERVING, SERVING, SERVING, NOT_SERVING],
  ]);
  health.setServing(false, 'a.A/x');
  health.setServing(true, 'a.A/y');
  await expect.poll(() => heard['a.A/y']).toEqual([NOT_SERVING, SERVING]);
  expect(heard).toEqual({
    'a.A': [NOT_SERVING, SERVING],
    'a.A/x': [NOT_SERVING, SERVING, NOT_SERVING],
    'a.A/y': [NOT_SERVING, SERVING],
  });
  for (const watch of watches) watch.cancel();
});
