import { setTimeout as sleep } from 'node:timers/promises';
import { RocmForgeError, typedError } from '../../shared/errors.js';
import { causeOf, type HubRequests, protocolError } from './hub-requests.js';
import type { HubFile } from './quantizations.js';

/** Bytes of a file, both ends included. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/** Time for one range, in addition to the silence that is allowed between two chunks, in silences. */
const RANGE_SILENCES = 20;

/**
 * End of a response to a request for a range, as an offset in the file. A hub without ranges sends all of it.
 *
 * @throws RocmForgeError `HUB_PROTOCOL` for a response that is neither; its body is ended
 */
export async function endOfRange(response: Response, file: HubFile, { first, last }: ByteRange): Promise<number> {
  if (response.status === 200) {
    const length = response.headers.get('content-length');
    // A page of a proxy, such as one to sign in, need not say its length.
    const isPage = /^text\/html/i.test(response.headers.get('content-type') ?? '');
    if (!isPage && (length === null || length === String(file.bytes))) return file.bytes;
    await response.body?.cancel();
    throw protocolError(
      `asked for ${file.path}, which has ${file.bytes} bytes, it sends ${isPage ? 'a page' : `${length} bytes`}`,
    );
  }
  const told = response.headers.get('content-range');
  if (response.status !== 206 || told !== `bytes ${first}-${last}/${file.bytes}`) {
    await response.body?.cancel();
    throw protocolError(
      `asked for bytes ${first} to ${last} of the ${file.bytes} of ${file.path}, it answers ${response.status} ${JSON.stringify(told)}`,
    );
  }
  return last + 1;
}

/**
 * A range of a file, in memory. From a hub without ranges it is read from the front of the whole file, of which no more is read
 * than to the range's end.
 *
 * @throws RocmForgeError of {@link HubRequests}; `HUB_UNAVAILABLE` for a range that breaks off each time
 */
export async function readRange(url: string, file: HubFile, range: ByteRange, requests: HubRequests): Promise<Buffer> {
  const { attempts, firstWaitMs } = requests.patience;
  for (let attempt = 1; ; attempt += 1) {
    const read = await attemptRange(url, file, range, requests);
    if (read instanceof Buffer) return read;
    if (attempt >= attempts) throw new RocmForgeError('HUB_UNAVAILABLE', `${file.path} broke off: ${read}; try again`);
    await sleep(firstWaitMs * 2 ** (attempt - 1));
  }
}

/** One request. @returns the bytes, or why it broke off */
async function attemptRange(
  url: string,
  file: HubFile,
  range: ByteRange,
  requests: HubRequests,
): Promise<Buffer | string> {
  const { silenceMs } = requests.patience;
  const { first, last } = range;
  const silence = new AbortController();
  const response = await requests.get(url, { range: `bytes=${first}-${last}` }, silence.signal);
  const end = await endOfRange(response, file, range);
  const timer = setTimeout(() => silence.abort(), silenceMs);
  const whole = setTimeout(() => silence.abort(), RANGE_SILENCES * silenceMs);
  const pieces: Uint8Array[] = [];
  let at = response.status === 200 ? 0 : first;
  try {
    for await (const piece of response.body ?? []) {
      timer.refresh();
      if (at + piece.length > end) throw protocolError(`it sends more of ${file.path} than was asked for`);
      const wanted = piece.subarray(Math.max(0, first - at), Math.max(0, last + 1 - at));
      if (wanted.length > 0) pieces.push(wanted);
      at += piece.length;
      if (at > last) break;
    }
  } catch (error) {
    if (typedError(error) !== undefined) throw error;
    return causeOf(error);
  } finally {
    clearTimeout(timer);
    clearTimeout(whole);
    silence.abort();
  }
  return at > last ? Buffer.concat(pieces) : 'the response ended before all was sent';
}
