import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeError } from '../../shared/errors.js';

/** Which hub is asked, by whom, and where what it gives is kept: what Python's huggingface_hub takes from the same variables. */
export interface HubSettings {
  /** Without a slash at its end. */
  readonly endpoint: string;
  readonly token: string | undefined;
  /** Shared with Python. */
  readonly cacheFolder: string;
  /** True if no hub may be asked. */
  readonly offline: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;

const DEFAULT_ENDPOINT = 'https://huggingface.co';
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/;

/**
 * `HF_ENDPOINT`, `HF_TOKEN` (else the file that Python's login wrote), `HF_HUB_CACHE` or `HF_HOME`, `HF_HUB_OFFLINE`.
 *
 * @throws RocmForgeError `INVALID_OPTION` for an endpoint that is none, and for a token that would go over the network in clear
 */
export function hubSettings(env: Environment = process.env): HubSettings {
  const home = expanded(
    env.HF_HOME ?? path.join(env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'huggingface'),
    env,
  );
  const endpoint = endpointOf(env.HF_ENDPOINT || DEFAULT_ENDPOINT);
  const token = tokenOf(env, home);
  if (token !== undefined && endpoint.protocol === 'http:' && !LOOPBACK.test(endpoint.hostname)) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `HF_ENDPOINT ${endpoint.origin} would get the token in clear; use https, or HF_HUB_DISABLE_IMPLICIT_TOKEN=1 without HF_TOKEN`,
    );
  }
  return {
    endpoint: endpoint.href.replace(/\/+$/, ''),
    token,
    cacheFolder: expanded(env.HF_HUB_CACHE ?? env.HUGGINGFACE_HUB_CACHE ?? path.join(home, 'hub'), env),
    offline: isTrue(env.HF_HUB_OFFLINE) || isTrue(env.TRANSFORMERS_OFFLINE),
  };
}

function endpointOf(text: string): URL {
  let url: URL | undefined;
  try {
    url = new URL(text);
  } catch {
    // Told below, as other texts that are no endpoint.
  }
  const isEndpoint =
    url !== undefined &&
    /^https?:$/.test(url.protocol) &&
    [url.search, url.hash, url.username, url.password].every((part) => part === '');
  if (url === undefined || !isEndpoint) {
    // Not quoted where a password may stand in it.
    const quoted = text.includes('@') ? '' : ` ${JSON.stringify(text)}`;
    throw new RocmForgeError('INVALID_OPTION', `HF_ENDPOINT${quoted} is not an http or https address of a host alone`);
  }
  return url;
}

function tokenOf(env: Environment, home: string): string | undefined {
  const given = env.HF_TOKEN || env.HUGGING_FACE_HUB_TOKEN;
  const token = given ?? (isTrue(env.HF_HUB_DISABLE_IMPLICIT_TOKEN) ? undefined : keptToken(env, home));
  const cleaned = token?.trim();
  if (cleaned === undefined || cleaned === '') return undefined;
  // Never quoted: it is a secret.
  if (!/^[\x21-\x7e]+$/.test(cleaned))
    throw new RocmForgeError('INVALID_OPTION', 'HF_TOKEN has characters of no token');
  return cleaned;
}

function keptToken(env: Environment, home: string): string | undefined {
  try {
    return readFileSync(env.HF_TOKEN_PATH ?? path.join(home, 'token'), 'utf8');
  } catch {
    return undefined;
  }
}

const isTrue = (value: string | undefined): boolean => /^(?:1|on|yes|true)$/i.test(value ?? '');

/** `~` and `$NAME`, as Python expands them. */
function expanded(folder: string, env: Environment): string {
  const named = folder.replace(/\$(?:(\w+)|\{(\w+)\})/g, (whole, name, braced) => env[name ?? braced] ?? whole);
  return path.resolve(named.replace(/^~(?=\/|$)/, os.homedir()));
}
