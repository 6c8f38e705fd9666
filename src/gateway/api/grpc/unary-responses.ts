import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import { toStatus } from '../../../shared/grpc/status.js';
import { type EncodedResponse, wellFormed } from '../../../shared/grpc/strict.js';
import type { WaitingCall } from '../inference.js';
import { refuseUnknown } from '../protocols/protocol.js';
import type { ResponseStream } from '../response-stream.js';
import { clientOf } from './caller.js';
import type { LoadReport } from './load-report.js';

/** A server-streaming call as the stream of an answer. */
export function responseStreamOf<Message>(
  call: ServerWritableStream<unknown, Message>,
  load: LoadReport,
): ResponseStream<Message> {
  return {
    get writableNeedDrain() {
      return call.writableNeedDrain;
    },
    onceDrained: (tell) => call.once('drain', tell),
    write: (message) => call.write(message),
    end: () => call.end(load.trailers()),
    fail: (error) => call.emit('error', load.statusOf(error)),
  };
}

/** Answers a call of another project's protocol; what its request has that is not known here is refused. */
export function answerKnown<Request extends object, Response>(
  call: ServerUnaryCall<Request, Response>,
  callback: sendUnaryData<Response>,
  handle: (request: Request, client: WaitingCall) => Response,
): void {
  answer(call, callback, async (request, client) => {
    refuseUnknown(request);
    return handle(request, client);
  });
}

/** Answers a call that a function answers. */
export function answer<Request, Response>(
  call: ServerUnaryCall<Request, Response>,
  callback: sendUnaryData<Response>,
  handle: (request: Request, client: WaitingCall) => Promise<Response | EncodedResponse>,
): void {
  Promise.resolve()
    .then(() => handle(wellFormed(call.request), clientOf(call)))
    // Encoded bytes pass the serializer unchanged (strictService).
    .then((response) => callback(null, response as Response))
    .catch((error: unknown) => callback(toStatus(error), null));
}
