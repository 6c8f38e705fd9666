import { isLocal } from '../../../shared/address.js';
import { RocmForgeError } from '../../../shared/errors.js';

const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** True if a host, with its port or without, is a name by which a machine calls itself alone. */
export const isThisMachine = (host: string): boolean => LOOPBACK.test(withoutPort(host));

const withoutPort = (host: string): string => host.toLowerCase().replace(/:\d*$/, '');

/**
 * True if a request's `Host` is served. On a loopback address a page of any name would reach the gateway by having its name
 * resolve there, and its browser would take the answers for the page's own (DNS rebinding): there the names of this machine
 * and those that are listed are served alone. Elsewhere, on a socket file, and where a token is demanded, which no page has,
 * any is.
 */
export function hostCheck(
  address: string,
  { allowed, demandsToken }: { readonly allowed: readonly string[]; readonly demandsToken: boolean },
): (host: string | undefined) => void {
  if (demandsToken || address.startsWith('unix:') || !isLocal(address)) return () => undefined;
  const listed = new Set(allowed.map((name) => name.toLowerCase()));
  return (host) => {
    if (host === undefined) return;
    const name = withoutPort(host);
    if (isThisMachine(name) || listed.has(name)) return;
    throw new RocmForgeError(
      'HOST_NOT_SERVED',
      `"${name.slice(0, MOST_NAME)}" is not a name of this machine; list it with --allowed-hosts`,
      { field: 'host' },
    );
  };
}

/** Characters of a host that are told back. */
const MOST_NAME = 64;
