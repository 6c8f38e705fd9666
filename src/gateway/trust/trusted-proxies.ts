import { BlockList, isIP } from 'node:net';
import { RocmForgeError } from '../../shared/errors.js';

/** The headers in which a proxy tells for whom it asks. */
export interface ForwardedHeaders {
  readonly 'x-forwarded-for'?: string | string[] | undefined;
  readonly forwarded?: string | string[] | undefined;
}

/** The entry that stands for all connections over a socket file. */
const UNIX = 'unix';

/** Proxies whose word on a client's address is taken. */
export class TrustedProxies {
  private readonly addresses = new BlockList();
  private readonly hasUnix: boolean;
  /** True if there are any. */
  readonly isEmpty: boolean;

  /**
   * @param entries IP addresses, networks such as `10.0.0.0/8`, and `unix` for all connections over a socket file
   * @throws RocmForgeError `INVALID_OPTION` for an entry that is none of these
   */
  constructor(entries: readonly string[] = []) {
    this.isEmpty = entries.length === 0;
    this.hasUnix = entries.includes(UNIX);
    for (const entry of entries) if (entry !== UNIX) this.add(entry);
  }

  /** @param address an IP address, or `unix:N` for a connection over a socket file */
  has(address: string): boolean {
    if (address.startsWith('unix:')) return this.hasUnix;
    const version = isIP(address);
    return version !== 0 && this.addresses.check(address, version === 4 ? 'ipv4' : 'ipv6');
  }

  /**
   * The address for which a request came: where proxies passed it on, the last one before them that is not trusted. A list that is
   * not understood is believed as far as it is, from its end.
   *
   * @param address of the connection
   */
  clientOf(address: string, headers: ForwardedHeaders): string {
    let client = address;
    for (const told of hopsOf(headers).reverse()) {
      if (!this.has(client)) break;
      const hop = ipOfHop(told);
      if (hop === undefined) break;
      client = hop;
    }
    return client;
  }

  private add(entry: string): void {
    const [, network = '', bits] = /^(.*?)(?:\/(\d{1,3}))?$/.exec(entry) ?? [];
    const version = isIP(network);
    const most = version === 4 ? 32 : 128;
    if (version === 0 || Number(bits ?? 0) > most) {
      const message = `"${entry}" of --trusted-proxies is not a valid address; use an IP address, a network such as 10.0.0.0/8, or unix`;
      throw new RocmForgeError('INVALID_OPTION', message, { option: 'trusted-proxies' });
    }
    this.addresses.addSubnet(network, Number(bits ?? most), version === 4 ? 'ipv4' : 'ipv6');
  }
}

/**
 * Addresses that passed a request on, first to last. X-Forwarded-For takes precedence over Forwarded: most proxies append to it,
 * and pass a client's own Forwarded on as it came.
 */
function hopsOf({ 'x-forwarded-for': list, forwarded }: ForwardedHeaders): string[] {
  if (list !== undefined) return String(list).split(',');
  if (forwarded === undefined) return [];
  return String(forwarded)
    .split(',')
    .map((hop) => /(?:^|;)\s*for\s*=\s*("[^"]*"|[^;]*)/i.exec(hop)?.[1]?.replace(/^"|"\s*$/g, '') ?? '');
}

/** `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::1`, `[2001:db8::1]:4711`; undefined for what is no address, such as `unknown`. */
function ipOfHop(hop: string): string | undefined {
  const told = hop.trim();
  const bare = /^\[(.*)\](?::\d+)?$/.exec(told)?.[1] ?? /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(told)?.[1] ?? told;
  const address = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1] ?? bare;
  return isIP(address) === 0 ? undefined : address;
}
