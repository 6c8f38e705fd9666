import type { IncomingMessage, ServerResponse } from 'node:http';
import { isThisMachine } from './hosts.js';

/** Answers requests of pages. @returns whether the request was a preflight, which is answered now */
export type ResponseCors = (request: IncomingMessage, response: ServerResponse) => boolean;

/** Origin that stands for pages of this machine, at any port. */
const LOCALHOST = 'localhost';
const ANY = '*';

/**
 * Lets pages of other origins read answers: those that are listed, or where a token is demanded all, as a page has none
 * unless its reader gave it one. Else no page but the server's own may, or every page would use a gateway that its reader can
 * reach. Credentials that a browser sends by itself, such as certificates, are not asked for
 * (https://fetch.spec.whatwg.org/#http-cors-protocol).
 *
 * @param origins such as `https://chat.example`; `localhost` for pages of this machine, `*` for all
 */
export function corsOf(origins: readonly string[] | undefined, demandsToken: boolean): ResponseCors {
  const listed = new Set(origins ?? (demandsToken ? [ANY] : []));
  if (listed.size === 0) return () => false;
  const isTaken = (origin: string): boolean =>
    listed.has(ANY) || listed.has(origin) || (listed.has(LOCALHOST) && isOfThisMachine(origin));
  return (request, response) => responseCors(request, response, isTaken);
}

function isOfThisMachine(origin: string): boolean {
  const [, host] = /^https?:\/\/(.+)$/.exec(origin) ?? [];
  return host !== undefined && isThisMachine(host);
}

function responseCors(
  request: IncomingMessage,
  response: ServerResponse,
  isTaken: (origin: string) => boolean,
): boolean {
  const { origin, 'access-control-request-method': asked, 'access-control-request-headers': headers } = request.headers;
  if (origin === undefined) return false;
  const mayRead = isTaken(origin);
  if (mayRead) response.setHeader('Access-Control-Allow-Origin', origin);
  if (mayRead) response.setHeader('Access-Control-Expose-Headers', 'x-request-id, x-rocmforge-ignored-fields');
  response.setHeader('vary', 'origin');
  if (request.method !== 'OPTIONS' || asked === undefined) return false;
  if (mayRead) response.setHeader('Access-Control-Allow-Methods', 'GET, POST, DELETE, OPTIONS');
  if (mayRead && headers !== undefined) response.setHeader('Access-Control-Allow-Headers', headers);
  response.writeHead(200, { 'content-length': 0 }).end();
  return true;
}
