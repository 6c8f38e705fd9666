import { isIP } from 'node:net';
import { RocmForgeError } from './errors.js';

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?):\d+$/;

/** True if an address, `HOST:PORT` or `unix:PATH`, is reached from this machine alone. */
export function isLocal(address: string): boolean {
  return address.startsWith('unix:') || LOOPBACK.test(address);
}

/**
 * The IP address of a connection's far end, `ADDRESS:PORT` as Node's sockets tell it, an IPv4 address in its own form; what has no port,
 * such as `unix:17`, as it is.
 */
export function ipOf(connection: string): string {
  const address = /^(.+):\d+$/.exec(connection)?.[1];
  if (address === undefined || connection.startsWith('unix:')) return connection;
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1] ?? address.replace(/%.*$/, '');
}

/** Part of an IP address that one site has: of IPv6 its network of 64 bits; other addresses as they are. */
export function siteOf(address: string): string {
  if (!address.includes(':') || address.startsWith('unix:')) return address;
  const [head = '', tail] = address.split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const first = groups(head);
  const last = tail === undefined ? [] : groups(tail);
  const zeros = Array<string>(Math.max(0, 8 - first.length - last.length)).fill('0');
  return `${[...first, ...zeros, ...last].slice(0, 4).join(':')}::/64`;
}

/** The largest TCP port. */
export const MAX_PORT = 65_535;
const ADDRESS_FORM = 'use HOST:PORT, such as 127.0.0.1:50051, or unix:PATH';

/** Host and TCP port of an address. An IPv6 host is without brackets. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/**
 * Reads `HOST:PORT`, where an IPv6 address may be in brackets.
 *
 * @param form what to use instead, for the message
 * @throws RocmForgeError `INVALID_OPTION` for another form, and for a port above 65535
 */
export function parseHostPort(address: string, form = ADDRESS_FORM): HostPort {
  const [, bracketed, plain = '', digits] = /^(?:\[([^[\]]+)\]|([^[\]]+)):(\d+)$/.exec(address) ?? [];
  const host = bracketed ?? plain;
  const isIpv6 = isIP(host) === 6;
  // Without brackets only a whole IPv6 address may have colons: 127.0.0.1:80:80 is a mistake, not a host called 127.0.0.1:80.
  if (digits === undefined || (bracketed === undefined ? host.includes(':') && !isIpv6 : !isIpv6)) {
    throw new RocmForgeError('INVALID_OPTION', `"${address}" is not an address; ${form}`);
  }
  const port = Number(digits);
  if (port <= MAX_PORT) return { host, port };
  throw new RocmForgeError(
    'INVALID_OPTION',
    `"${address}" is not an address: the port must be between 0 and ${MAX_PORT}`,
  );
}
