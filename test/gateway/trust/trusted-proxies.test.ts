import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TrustedProxies } from '../../../src/gateway/trust/trusted-proxies.js';
import { runs, seed } from '../../support/run-size.js';

const proxies = new TrustedProxies(['10.0.0.0/8', '192.0.2.1', '2001:db8::/32', 'unix']);

it.each([
  ['no header', {}, '10.0.0.1', '10.0.0.1'],
  ['one client', { 'x-forwarded-for': '203.0.113.7' }, '10.0.0.1', '203.0.113.7'],
  ['a client with a port', { 'x-forwarded-for': '203.0.113.7:4711' }, '10.0.0.1', '203.0.113.7'],
  ['a client of IPv6', { 'x-forwarded-for': '2001:db9::1' }, '10.0.0.1', '2001:db9::1'],
  ['a client of IPv6 with a port', { 'x-forwarded-for': '[2001:db9::1]:4711' }, '10.0.0.1', '2001:db9::1'],
  ['an IPv4 client in IPv6', { 'x-forwarded-for': '::ffff:203.0.113.7' }, '10.0.0.1', '203.0.113.7'],
  ['two proxies', { 'x-forwarded-for': '203.0.113.7, 10.0.0.2' }, '192.0.2.1', '203.0.113.7'],
  ['an address that the client wrote', { 'x-forwarded-for': '198.51.100.1, 203.0.113.7' }, '10.0.0.1', '203.0.113.7'],
  ['no address', { 'x-forwarded-for': 'unknown' }, '10.0.0.1', '10.0.0.1'],
  ['no address before a proxy', { 'x-forwarded-for': '1.2.3.4, unknown, 10.0.0.2' }, '10.0.0.1', '10.0.0.2'],
  ['nobody trusted', { 'x-forwarded-for': '203.0.113.7' }, '198.51.100.9', '198.51.100.9'],
  ['a socket file', { 'x-forwarded-for': '203.0.113.7' }, 'unix:3', '203.0.113.7'],
  ['Forwarded', { forwarded: 'for=203.0.113.7;proto=https' }, '10.0.0.1', '203.0.113.7'],
  ['Forwarded of IPv6', { forwarded: 'by=_x;For="[2001:db9::1]:4711"' }, '10.0.0.1', '2001:db9::1'],
  ['Forwarded by two', { forwarded: 'for=203.0.113.7, for=10.0.0.2' }, '10.0.0.1', '203.0.113.7'],
  ['Forwarded without for', { forwarded: 'proto=https' }, '10.0.0.1', '10.0.0.1'],
  ['both', { forwarded: 'for=198.51.100.1', 'x-forwarded-for': '203.0.113.7' }, '10.0.0.1', '203.0.113.7'],
])('%s', (_what, headers, connection, client) => {
  expect(proxies.clientOf(connection, headers)).toBe(client);
});

it('whatever a client writes, it is the address that the first trusted proxy saw', () => {
  const trusted = fc.integer({ min: 0, max: 2 ** 24 - 1 }).map((n) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`);
  const stranger = fc.integer({ min: 1, max: 254 }).map((n) => `203.0.113.${n}`);
  const written = fc.string({ unit: 'binary-ascii' }).map((text) => text.replaceAll(',', ''));
  fc.assert(
    fc.property(fc.array(written), stranger, fc.array(trusted), trusted, (own, client, hops, last) => {
      const list = [...own, client, ...hops].join(', ');
      expect(proxies.clientOf(last, { 'x-forwarded-for': list })).toBe(client);
    }),
    { numRuns: runs(300), seed: seed(41) },
  );
});

describe('an entry that is no address is refused by name', () => {
  it.each(['10.0.0.0/33', '10.0.0', 'proxy.example', '2001:db8::/129', '', '10.0.0.1:80'])('%s', (entry) => {
    expect(() => new TrustedProxies([entry])).toThrow(`"${entry}" of --trusted-proxies is not a valid address`);
  });
});
