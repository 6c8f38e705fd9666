import { setTimeout as sleep } from 'node:timers/promises';
import { type ErrorReason, RocmForgeError, typedError } from '../../shared/errors.js';
import type { HubSettings } from './hub-settings.js';

/** Time limit of a hub, and number of retries. */
export interface HubPatience {
  /** To the first byte of an answer, and between two pieces of it. */
  readonly silenceMs: number;
  /** Before the first repetition; doubled before each other. */
  readonly firstWaitMs: number;
  /** Requests that fail one after the other. */
  readonly attempts: number;
  /** Longest delay that a rate-limiting hub may impose. */
  readonly longestWaitMs: number;
}

export const HUB_PATIENCE: HubPatience = {
  silenceMs: 30_000,
  firstWaitMs: 1000,
  attempts: 5,
  longestWaitMs: 300_000,
};

const MOST_REDIRECTS = 5;
/** Limit of all pages of a listing, and time for one page in addition to the silence that is allowed between two chunks. */
const MOST_LISTING_BYTES = 64 << 20;
const MOST_LISTING_PAGES = 500;
const PAGE_SILENCES = 10;
const MOST_REASON_CHARACTERS = 200;

/** Asks a hub: with the token, no further than the hub, again when it is worth it, and with a typed error when it is not. */
export class HubRequests {
  private listingBytes = 0;
  private listingPages = 0;

  constructor(
    private readonly settings: HubSettings,
    readonly patience: HubPatience,
    /** Told what is waited for. */
    private readonly notice: (text: string) => void,
  ) {}

  /**
   * The answer to a GET, its body unread. Redirects are followed; the token goes to the hub's own origin alone.
   *
   * @param headers beside the token
   * @param signal ends the request, its body too
   * @throws RocmForgeError `HUB_REFUSED`, `MODEL_NOT_FOUND`, `HUB_BUSY`, `HUB_UNAVAILABLE`, `HUB_PROTOCOL`
   */
  async get(url: string, headers: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Response> {
    let waitMs = this.patience.firstWaitMs;
    for (let attempt = 1; ; attempt += 1) {
      const failure = await this.once(url, headers, signal);
      if (failure instanceof Response) return failure;
      const { error, afterMs } = failure;
      if (!error.retryable || attempt >= this.patience.attempts) throw error;
      const pause = afterMs ?? waitMs;
      if (pause > this.patience.longestWaitMs) throw error;
      this.notice(`${error.message}; asking again in ${Math.ceil(pause / 1000)} s`);
      await sleep(pause);
      waitMs *= 2;
    }
  }

  /** {@link get} as `@huggingface/hub` calls it: its answers are read here, up to a size. */
  readonly fetch: typeof fetch = async (input) => {
    this.listingPages += 1;
    if (this.listingPages > MOST_LISTING_PAGES)
      throw protocolError(`its listing has more than ${MOST_LISTING_PAGES} pages`);
    const silence = new AbortController();
    const response = await this.get(String(input), { accept: 'application/json' }, silence.signal);
    const timer = setTimeout(() => silence.abort(), this.patience.silenceMs);
    const page = setTimeout(() => silence.abort(), PAGE_SILENCES * this.patience.silenceMs);
    const pieces: Uint8Array[] = [];
    try {
      for await (const piece of response.body ?? []) {
        timer.refresh();
        this.listingBytes += piece.length;
        if (this.listingBytes > MOST_LISTING_BYTES) {
          throw protocolError(`its answer has more than ${MOST_LISTING_BYTES >> 20} MiB`);
        }
        pieces.push(piece);
      }
    } catch (error) {
      if (typedError(error) !== undefined) throw error;
      throw new RocmForgeError('HUB_UNAVAILABLE', `the hub's answer ended too early: ${causeOf(error)}`);
    } finally {
      clearTimeout(timer);
      clearTimeout(page);
      silence.abort();
    }
    return new Response(Buffer.concat(pieces), { status: response.status, headers: response.headers });
  };

  private async once(
    url: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal | undefined,
  ): Promise<Response | { error: RocmForgeError; afterMs?: number | undefined }> {
    const hub = new URL(this.settings.endpoint);
    let at = new URL(url);
    for (let hop = 0; hop <= MOST_REDIRECTS; hop += 1) {
      const isHub = at.origin === hub.origin;
      // The library follows a listing's pages by their links.
      if (hop === 0 && !isHub) throw protocolError(`it sends us to ${at.origin} for its own listing`);
      let response: Response;
      const silence = new AbortController();
      const timer = setTimeout(() => silence.abort(), this.patience.silenceMs);
      try {
        response = await fetch(at, {
          redirect: 'manual',
          headers: {
            'user-agent': 'rocmforge',
            'accept-encoding': 'identity',
            ...headers,
            ...(isHub && this.settings.token !== undefined && { authorization: `Bearer ${this.settings.token}` }),
          },
          signal: signal === undefined ? silence.signal : AbortSignal.any([signal, silence.signal]),
        });
      } catch (error) {
        return { error: new RocmForgeError('HUB_UNAVAILABLE', `${at.host} does not answer: ${causeOf(error)}`) };
      } finally {
        clearTimeout(timer);
      }
      if (response.status < 300 || response.status >= 400) return response.ok ? response : failureOf(response, at);
      const location = response.headers.get('location');
      await response.body?.cancel();
      if (location === null) throw protocolError(`${at.host} redirects to nowhere`);
      at = target(location, at);
    }
    throw protocolError(`${hub.host} redirects more than ${MOST_REDIRECTS} times`);
  }
}

/** Target of a redirect: never from https to what anybody on the way can change. */
function target(location: string, from: URL): URL {
  let to: URL;
  try {
    to = new URL(location, from);
  } catch {
    throw protocolError(`${from.host} redirects to ${JSON.stringify(location.slice(0, MOST_REASON_CHARACTERS))}`);
  }
  if (to.username !== '' || to.password !== '')
    throw protocolError(`${from.host} redirects with a user's name in the URL`);
  if (to.protocol === 'https:' || (to.protocol === 'http:' && from.protocol === 'http:')) return to;
  throw protocolError(`${from.host} redirects from ${from.protocol} to ${to.protocol}`);
}

async function failureOf(
  response: Response,
  at: URL,
): Promise<{ error: RocmForgeError; afterMs?: number | undefined }> {
  const { status, headers } = response;
  await response.body?.cancel();
  const code = headers.get('x-error-code');
  const told = headers.get('x-error-message')?.slice(0, MOST_REASON_CHARACTERS);
  const why = `${at.host} answers ${status}${told ? `, ${JSON.stringify(told)}` : ''}, to ${at.pathname}`;
  const error = (reason: ErrorReason, what: string) => new RocmForgeError(reason, `${why}: ${what}`);
  if (status === 429 || status === 503) {
    const reason = status === 429 ? 'HUB_BUSY' : 'HUB_UNAVAILABLE';
    return { error: error(reason, 'try again later'), afterMs: retryAfterMs(headers) };
  }
  if (status === 404 || code === 'RepoNotFound' || code === 'RevisionNotFound' || code === 'EntryNotFound') {
    const hidden = status === 401 ? '; a private repository also needs HF_TOKEN' : '';
    return { error: error('MODEL_NOT_FOUND', `there is no such repository, revision or file${hidden}`) };
  }
  if (status === 401) return { error: error('HUB_REFUSED', 'it wants a token that it knows; set HF_TOKEN') };
  if (status === 403) {
    return {
      error: error('HUB_REFUSED', 'the token may not read it; request access to a gated model on its page'),
    };
  }
  if (status >= 500 || status === 408) return { error: error('HUB_UNAVAILABLE', 'try again later') };
  return { error: error('HUB_PROTOCOL', 'this is not an answer to a request for a file') };
}

/** Seconds or a date, or the seconds of a `RateLimit` header; undefined where neither says. */
function retryAfterMs(headers: Headers): number | undefined {
  const told = headers.get('retry-after')?.trim();
  if (told !== undefined && /^\d{1,9}$/.test(told)) return 1000 * Number(told);
  const date = Date.parse(told ?? '');
  if (Number.isFinite(date)) return Math.max(0, date - Date.now());
  const reset = /;\s*t=(\d{1,9})/.exec(headers.get('ratelimit') ?? '')?.[1];
  return reset === undefined ? undefined : 1000 * Number(reset);
}

/** A hub that answers what no hub would. */
export function protocolError(what: string): RocmForgeError {
  return new RocmForgeError('HUB_PROTOCOL', `the hub is not to be trusted: ${what}`);
}

/** Cause of a failed request, in its own words. */
export function causeOf(error: unknown): string {
  const { cause, message, name } = error as Error;
  if (name === 'AbortError' || name === 'TimeoutError') return 'it was silent for too long';
  return cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code || message : message;
}
