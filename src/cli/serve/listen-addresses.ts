import { METRICS_ADDRESS_FORM } from '../../gateway/metrics-server.js';
import { type HostPort, parseHostPort } from '../../shared/address.js';
import { RocmForgeError } from '../../shared/errors.js';

/** Addresses of a gateway's servers, `HOST:PORT` or `unix:PATH`; absent: there is no such server. */
export interface ListenAddresses {
  readonly listen: string;
  readonly httpAddresses?: readonly string[] | undefined;
  readonly metricsListen?: string | undefined;
  readonly adminListen?: string | undefined;
}

/**
 * Checks the addresses of all servers before any of them, or an executor, is started.
 *
 * @throws RocmForgeError `INVALID_OPTION` for what is not an address, and for two options with one address: the second server could
 *   not listen, and its error would blame another process
 */
export function checkListenAddresses({
  listen,
  httpAddresses = [],
  metricsListen,
  adminListen,
}: ListenAddresses): void {
  const given: readonly (readonly [flag: string, address: string])[] = [
    ['listen', listen],
    ...httpAddresses.map((address) => ['http-listen', address] as const),
    ...(metricsListen === undefined ? [] : [['metrics-listen', metricsListen] as const]),
    ...(adminListen === undefined ? [] : [['admin-listen', adminListen] as const]),
  ];
  const servers = given.map(([flag, address]) => ({ flag, address, parsed: parsed(flag, address) }));
  for (const [i, one] of servers.entries()) {
    const other = servers.slice(0, i).find(({ parsed }) => conflict(parsed, one.parsed));
    if (other === undefined) continue;
    const flags = other.flag === one.flag ? `two of --${one.flag}` : `--${other.flag} and --${one.flag}`;
    const both = other.address === one.address ? one.address : `${other.address} and ${one.address}`;
    throw new RocmForgeError('INVALID_OPTION', `${flags} use one address, ${both}; give each server its own`, {
      option: one.flag,
    });
  }
}

function parsed(flag: string, address: string): string | HostPort {
  // Metrics have no socket file; the admin API has nothing else, and its server says so.
  if (flag !== 'metrics-listen' && (flag === 'admin-listen' || address.startsWith('unix:'))) return address;
  return parseHostPort(address, flag === 'metrics-listen' ? METRICS_ADDRESS_FORM : undefined);
}

/** Hosts that `localhost` may resolve to. */
const LOOPBACKS: readonly string[] = ['127.0.0.1', '::1'];

/** True if two servers could not both listen. Port 0 is a free one, each time another. */
function conflict(one: string | HostPort, other: string | HostPort): boolean {
  if (typeof one === 'string' || typeof other === 'string') return one === other;
  if (one.port !== other.port || one.port === 0) return false;
  const hosts = [one.host, other.host];
  // An IPv6 wildcard takes the port of IPv4, too.
  if (hosts.includes('::') || one.host === other.host) return true;
  if (hosts.includes('0.0.0.0')) return hosts.every((host) => !host.includes(':'));
  return hosts.includes('localhost') && hosts.some((host) => LOOPBACKS.includes(host));
}
