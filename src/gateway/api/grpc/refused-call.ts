import { constants, type ServerHttp2Stream } from 'node:http2';
import { RocmForgeError } from '../../../shared/errors.js';
import { toStatus } from '../../../shared/grpc/status.js';

const RETRY_MS = 1000;

/** Answers in the place of a handler that has not, and gives the stream up. */
export function refuse(stream: ServerHttp2Stream, error: RocmForgeError): void {
  if (stream.destroyed || stream.closed) return;
  if (stream.headersSent) {
    // A call with answers already: what is to be told more waits behind them.
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    return;
  }
  const { code, details = '', metadata } = toStatus(error);
  const headers = {
    [constants.HTTP2_HEADER_STATUS]: constants.HTTP_STATUS_OK,
    [constants.HTTP2_HEADER_CONTENT_TYPE]: 'application/grpc+proto',
    'grpc-status': String(code),
    'grpc-message': encodeURI(details),
    ...metadata?.toHttp2Headers(),
  };
  stream.respond(headers as Parameters<ServerHttp2Stream['respond']>[0], { endStream: true });
  stream.close(constants.NGHTTP2_NO_ERROR);
}

/** The error of a call that may be sent again. */
export const retryLater = (reason: 'QUEUE_FULL' | 'SLOW_SENDER', message: string) =>
  new RocmForgeError(reason, message, { retry_delay_ms: String(RETRY_MS) });
