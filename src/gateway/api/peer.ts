import { ipOf, siteOf } from '../../shared/address.js';

/**
 * Client of a call, for all that is shared out among clients: on TCP the remote address without its port, of IPv6 the
 * network of 64 bits that one site has; on a Unix socket the connection.
 */
export function peerOf(call: { getPeer(): string }): string {
  return siteOf(ipOf(call.getPeer()));
}
