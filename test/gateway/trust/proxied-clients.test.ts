import { beforeEach, expect, it } from 'vitest';
import { ProxiedClients } from '../../../src/gateway/trust/proxied-clients.js';
import { TrustedProxies } from '../../../src/gateway/trust/trusted-proxies.js';

const PROXY = '10.0.0.1:4711';
let now: number;
let clients: ProxiedClients;
beforeEach(() => {
  now = 0;
  const known = (authorization: string) => (authorization === 'Bearer a' ? 'token:alice' : undefined);
  clients = new ProxiedClients(new TrustedProxies(['10.0.0.0/8']), known, () => now);
});
const from = (address: string) => ({ 'x-forwarded-for': address });

it('knows whom a request counts for: principal, else address, and nobody but its sender without a proxy', () => {
  expect([
    clients.clientOf(PROXY, { ...from('203.0.113.7'), authorization: 'Bearer a' }),
    clients.clientOf(PROXY, { ...from('203.0.113.7'), 'x-api-key': 'a' }),
    clients.clientOf(PROXY, { ...from('203.0.113.7'), authorization: 'Bearer b' }),
    clients.clientOf(PROXY, from('2001:db8:1:2:3::4')),
    clients.clientOf(PROXY, {}),
    clients.clientOf('203.0.113.9:80', from('203.0.113.7')),
  ]).toEqual(['token:alice', 'token:alice', '203.0.113.7', '2001:db8:1:2::/64', '10.0.0.1', undefined]);
  expect(clients.peerOf('203.0.113.9:80', from('203.0.113.7'))).toBe('203.0.113.9');
});

it('refuses whoever has cancelled 200 calls, and nobody else, until 20 a second have come back', () => {
  for (let i = 0; i < 199; i++) clients.cancelled('203.0.113.7');
  expect(clients.refusalOf('203.0.113.7')).toBeUndefined();
  clients.cancelled('203.0.113.7');
  expect(clients.refusalOf('203.0.113.7')).toMatchObject({
    reason: 'RATE_LIMITED',
    metadata: { limit: 'cancelled_calls', retry_delay_ms: '50' },
  });
  expect(clients.refusalOf('203.0.113.8')).toBeUndefined();
  now += 50;
  expect(clients.refusalOf('203.0.113.7')).toBeUndefined();
});

it('lets nobody owe more than a second, and forgets who is refused last', () => {
  for (let i = 0; i < 10_000; i++) clients.cancelled('mallory');
  for (let i = 0; i < 5000; i++) clients.cancelled(`client ${i}`);
  expect(clients.refusalOf('mallory')?.metadata.retry_delay_ms).toBe('1050');
});

it('counts what costs more than a cancel as 40 of them', () => {
  for (let i = 0; i < 4; i++) clients.violated('mallory');
  expect(clients.refusalOf('mallory')).toBeUndefined();
  clients.violated('mallory');
  expect(clients.refusalOf('mallory')?.reason).toBe('RATE_LIMITED');
});
