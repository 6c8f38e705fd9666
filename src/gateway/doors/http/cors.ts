import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * Lets pages of other origins read answers, where a token is demanded: a page has none unless its reader gave it one. Without
 * tokens no page but the door's own may, or every page would use a gateway that its reader can reach. Credentials that a
 * browser sends by itself, such as certificates, are not asked for (https://fetch.spec.whatwg.org/#http-cors-protocol).
 *
 * @returns whether the request was a preflight, which is answered now
 */
export function answerCors(request: IncomingMessage, response: ServerResponse): boolean {
  const { origin, 'access-control-request-method': asked, 'access-control-request-headers': headers } = request.headers;
  if (origin === undefined) return false;
  response.setHeader('access-control-allow-origin', origin);
  response.setHeader('vary', 'origin');
  if (request.method !== 'OPTIONS' || asked === undefined) return false;
  response.setHeader('access-control-allow-methods', 'GET, POST');
  if (headers !== undefined) response.setHeader('access-control-allow-headers', headers);
  response.writeHead(200, { 'content-length': 0 }).end();
  return true;
}
