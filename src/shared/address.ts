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
