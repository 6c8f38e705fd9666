/**
 * Who sent a call, for all that is shared out among clients: on TCP the remote address without its port, of IPv6 the
 * network of 64 bits that one site has; on a Unix socket the connection.
 */
export function peerOf(call: { getPeer(): string }): string {
  const connection = call.getPeer();
  const address = /^(.+):\d+$/.exec(connection)?.[1];
  if (address === undefined || connection.startsWith('unix:')) return connection;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped?.[1] !== undefined) return mapped[1];
  return address.includes(':') ? networkOf(address) : address;
}

/** The first four groups of an IPv6 address. */
function networkOf(address: string): string {
  const [head = '', tail] = address.replace(/%.*$/, '').split('::');
  const groups = (text: string) => (text === '' ? [] : text.split(':'));
  const first = groups(head);
  const last = tail === undefined ? [] : groups(tail);
  const zeros = Array<string>(Math.max(0, 8 - first.length - last.length)).fill('0');
  return `${[...first, ...zeros, ...last].slice(0, 4).join(':')}::/64`;
}
