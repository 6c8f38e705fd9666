import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { RocmForgeError } from '../../../shared/errors.js';
import { openAiError, withStatus } from './errors.js';
import { JSON_TYPE } from './exchange.js';
import type { OpenRequests } from './open-requests.js';
import { requestIdOf } from './request-id.js';

/** A request's errors before it is handled, and what depends on them. */
export interface ClientErrorOptions {
  readonly requests: OpenRequests;
  /** Bytes of the headers of one request. */
  readonly maxHeaderBytes: number;
  /** Told of each request that did not arrive in time. */
  readonly onLate: () => void;
  /** Told of each error that is answered here. */
  readonly onRefused: (error: RocmForgeError, socket: Socket, id: string) => void;
}

/** Time for which a connection is read on after its error: one that is closed before would take the response along. */
const LINGER_MS = 2000;

/** Errors of the parser for bytes that are not the beginning of a request: they are not answered in the form of an API. */
const NOT_HTTP: ReadonlySet<string | undefined> = new Set([
  ...['HPE_INVALID_METHOD', 'HPE_INVALID_CONSTANT', 'HPE_INVALID_VERSION', 'HPE_INVALID_URL', 'HPE_PAUSED_H2_UPGRADE'],
]);

const HEADERS_TOO_LARGE = 431;
const EXPECTATION_FAILED = 417;

/** Responds to requests that are not HTTP or do not arrive in time, if their connection is still open. */
export function onClientError(server: Server, options: ClientErrorOptions): void {
  const { requests, maxHeaderBytes, onLate, onRefused } = options;
  const answered = new WeakSet<Socket>();
  server.on('clientError', (error: NodeJS.ErrnoException, duplex) => {
    const socket = duplex as Socket;
    // The parser reports what still comes of such a request, too.
    if (answered.has(socket)) return;
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') onLate();
    const open = requests.on(socket);
    if (!socket.writable || error.code === 'ECONNRESET') socket.destroy();
    else if (open !== undefined && (open.hasArrived || open.response.headersSent)) socket.destroy();
    else if (open !== undefined) open.fail(errorOf(error, maxHeaderBytes));
    else {
      answered.add(socket);
      if (NOT_HTTP.has(error.code)) endWith(socket, head(400, {}));
      else {
        const refusal = errorOf(error, maxHeaderBytes);
        const id = requestIdOf(undefined);
        onRefused(refusal, socket, id);
        endWith(socket, responseOf(refusal, id));
      }
    }
  });
}

/**
 * Why a request whose headers can be read is refused by them; HTTP itself has these rules (RFC 9112, 3.2; RFC 9110, 10.1.1).
 *
 * @returns undefined if it is not
 */
export function headerError({ headers, httpVersion }: IncomingMessage): RocmForgeError | undefined {
  const { host, expect } = headers;
  if (httpVersion === '1.1' && !host) {
    const what = 'the Host header is missing or empty; HTTP/1.1 requires the name of the server in it';
    return new RocmForgeError('INVALID_FIELD', what, { field: 'host' });
  }
  if (expect === undefined || /^100-continue$/i.test(expect)) return undefined;
  const what = `the Expect header is ${JSON.stringify(expect.slice(0, MOST_VALUE))}; it must be "100-continue"`;
  return withStatus(new RocmForgeError('INVALID_FIELD', what, { field: 'expect' }), EXPECTATION_FAILED);
}

/** Characters of a header's value that an error repeats. */
const MOST_VALUE = 64;

function errorOf({ code, message }: NodeJS.ErrnoException, maxHeaderBytes: number): RocmForgeError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new RocmForgeError('SLOW_SENDER', 'the request did not arrive in time; send it again');
    case 'HPE_HEADER_OVERFLOW': {
      const what = `the headers have more than ${maxHeaderBytes} bytes; send fewer or shorter ones`;
      return withStatus(new RocmForgeError('MESSAGE_TOO_LARGE', what), HEADERS_TOO_LARGE);
    }
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new RocmForgeError('MESSAGE_TOO_LARGE', 'the extensions of a chunk are too large; leave them out');
    case 'HPE_INVALID_EOF_STATE': {
      const what = 'the client ended the connection before the whole request had arrived; send all of it';
      return new RocmForgeError('MALFORMED_MESSAGE', what);
    }
    case 'HPE_INVALID_TRANSFER_ENCODING':
    case 'HPE_INVALID_CONTENT_LENGTH':
    case 'HPE_UNEXPECTED_CONTENT_LENGTH': {
      const what = 'the length of the body is ambiguous; send either one content-length or transfer-encoding: chunked';
      return new RocmForgeError('MALFORMED_MESSAGE', what);
    }
    default:
      return new RocmForgeError('MALFORMED_MESSAGE', `the request is not HTTP: ${message}`);
  }
}

/** An error as a whole response, in OpenAI's form: no path is known. */
function responseOf(error: RocmForgeError, id: string): string {
  const { status, body } = openAiError(error);
  const text = JSON.stringify(body);
  const headers = { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(text), 'x-request-id': id };
  return head(status, { ...headers, 'request-id': id }) + text;
}

function head(status: number, headers: Readonly<Record<string, string | number>>): string {
  const all = Object.entries({ ...headers, connection: 'close' }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${all.join('')}\r\n`;
}

function endWith(socket: Socket, response: string): void {
  socket.end(response);
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}
