import type { ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import type {
  GenerateRequest,
  GenerateResponse,
  GenerateStreamRequest,
  GenerateStreamResponse,
  InferenceServiceServer,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import { toStatus } from '../../../shared/grpc/status.js';
import { type EncodedResponse, wellFormed } from '../../../shared/grpc/strict.js';
import type { AnswerStream } from '../answer-stream.js';
import type { Inference, WaitingClient } from '../inference.js';
import { clientOf } from './caller.js';

export const INFERENCE_SERVICE = 'rocmforge.v1.InferenceService';

/** The handlers of the public gRPC API, to register with a server. */
export function inferenceHandlers(inference: Inference): InferenceServiceServer {
  return {
    generate: (call, callback) => void generate(inference, call, callback),
    generateStream: (call) => void generateStream(inference, call),
    tokenize: (call, callback) => answer(call, callback, (request, client) => inference.tokenize(request, client)),
    detokenize: (call, callback) => answer(call, callback, (request, client) => inference.detokenize(request, client)),
    listModels: (call, callback) => answer(call, callback, async () => inference.listModels()),
    getModel: (call, callback) => answer(call, callback, async (request) => inference.getModel(request)),
  };
}

async function generateStream(
  inference: Inference,
  call: ServerWritableStream<GenerateStreamRequest, GenerateStreamResponse>,
): Promise<void> {
  const stream: AnswerStream = {
    get writableNeedDrain() {
      return call.writableNeedDrain;
    },
    onceDrained: (tell) => call.once('drain', tell),
    write: (message) => call.write(message),
    end: () => call.end(),
    fail: (error) => call.emit('error', toStatus(error)),
  };
  try {
    await inference.generateStream(wellFormed(call.request), clientOf(call), stream);
  } catch (error) {
    call.emit('error', toStatus(error));
  }
}

async function generate(
  inference: Inference,
  call: ServerUnaryCall<GenerateRequest, GenerateResponse>,
  callback: sendUnaryData<GenerateResponse>,
): Promise<void> {
  try {
    const response = await inference.generate(wellFormed(call.request), clientOf(call));
    if (response !== undefined) callback(null, response);
  } catch (error) {
    callback(toStatus(error), null);
  }
}

function answer<Request, Response>(
  call: ServerUnaryCall<Request, Response>,
  callback: sendUnaryData<Response>,
  handle: (request: Request, client: WaitingClient) => Promise<Response | EncodedResponse>,
): void {
  Promise.resolve()
    .then(() => handle(wellFormed(call.request), clientOf(call)))
    // What is encoded already passes the serializer as it is (strictService).
    .then((response) => callback(null, response as Response))
    .catch((error: unknown) => callback(toStatus(error), null));
}
