import { RocmForgeError } from '../../shared/errors.js';

/** Words of `--cors-origins` that are not an origin themselves: all, pages of this machine, and pages without an origin. */
const WORDS: readonly string[] = ['*', 'localhost', 'null'];

const HOST = /^(?:\[[\da-f:]+\]|[\w.-]+)(?::\d+)?$/;

/**
 * Checks `--cors-origins`. An origin is compared with the header of a browser as it is, so that one in another form would allow no page.
 *
 * @throws RocmForgeError `INVALID_OPTION` for what no browser sends
 */
export function checkOrigins(origins: readonly string[] = []): void {
  for (const given of origins) {
    if (WORDS.includes(given)) continue;
    const origin = originOf(given);
    if (origin === given) continue;
    const help =
      origin === undefined ? 'give SCHEME://HOST or SCHEME://HOST:PORT, localhost, or * for all' : `give ${origin}`;
    throw new RocmForgeError('INVALID_OPTION', `--cors-origins ${given} is not the origin of a web page; ${help}`, {
      option: 'cors-origins',
    });
  }
}

/** The origin of a URL as browsers send it; undefined for a text that is not a URL with a host. */
function originOf(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { origin, protocol, host } = new URL(text);
  // No host has a star or a comma: neither patterns nor lists with commas are taken.
  if (!HOST.test(host)) return undefined;
  // Node knows no origin of schemes such as chrome-extension, which browsers send.
  return origin === 'null' ? `${protocol}//${host}` : origin;
}
